// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// MaxChain is the largest number of policies a check may name.
const MaxChain = 16

// MaxDescriptors is the largest number of descriptors in one check.
const MaxDescriptors = plan.MaxDescriptors

// Check asks whether one request may pass.
type Check struct {
	// Policies is a chain of policies, evaluated as one step without looking at their
	// matches. Empty means every policy that matches Attributes.
	Policies []string
	// Key, when not nil, replaces the keys that the policies derive from Attributes. No
	// part may be empty, contain control characters or be invalid UTF-8.
	Key []string
	// Attributes are the facts of the request. The engine normalizes them in place.
	Attributes plan.Attributes
	// Cost is the number of units to spend, 1..plan.MaxCost.
	Cost int64
	// Peek evaluates the check and writes nothing.
	Peek bool
	// Hits, when not nil, replaces Cost and Peek for each of Attributes.Descriptors, in the
	// same order. If the hits of several descriptors apply to the same policy and key, only
	// the largest are spent.
	Hits []Hits
	// ReservationID names the reservation that Hits reserve or commit: 1 to 64 printable ASCII
	// characters without spaces.
	ReservationID string
	// ResponseCode is the status of the response to the request that Hits commit, 0..plan.MaxResponseCode; 0 is
	// unknown.
	ResponseCode int
	// Memory, when not nil, is where the decision is put. It must not be used for another check while the decision is.
	Memory *DecisionMemory
}

// Hits is what one descriptor of a check spends.
type Hits struct {
	// Cost is the number of units to spend, 1..plan.MaxCost, or 0 with HitsCommit.
	Cost int64
	// Peek evaluates the check and writes nothing. Not with HitsCommit.
	Peek bool
	// Action is what the policies do with the cost.
	Action HitsAction
	// Limit, when not nil, replaces a limit of the policy for this check.
	Limit *RequestedLimit
}

// HitsAction is what the policies do with the cost of a descriptor.
type HitsAction int

// The actions.
const (
	// HitsCheck spends the cost if the check is allowed. A policy with lateCharges that include
	// the cost spends it whatever its limits admit, apart from the check.
	HitsCheck HitsAction = iota
	// HitsReserve holds the cost for Check.ReservationID in the policies that take reservations,
	// if the check is allowed. All others spend 1. It is denied if such a reservation is open.
	HitsReserve
	// HitsCommit ends the hold of Check.ReservationID in the policies that take reservations and
	// spends the cost, also without a hold, once for each ID in ten minutes. Other policies
	// with lateCharges that include the cost spend it, too; all others spend nothing. It is never
	// denied. Policies that compute their cost do so from Check.ResponseCode.
	HitsCommit
)

// RequestedLimit is a limit that the request carries, as in the limit field of an Envoy
// rate limit descriptor. It replaces the limit that has the same window or, if the policy
// has a single limit, that one.
//
// A limit that counts units keeps its count if the window is the same. Another window, a
// TokenBucket and a GCRA have a state of their own.
type RequestedLimit struct {
	// Units is the threshold, 0 or more; 0 admits nothing.
	Units int64
	// Window is one of RequestableWindows.
	Window time.Duration
}

// RequestableWindows lists the windows that a RequestedLimit may have.
var RequestableWindows = []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}

// Validate returns a *FieldError for the first invalid field, or nil.
func (c *Check) Validate() error {
	if len(c.Hits) == 0 && (c.Cost < 1 || c.Cost > plan.MaxCost) {
		return &FieldError{Field: "cost", Problem: costProblem}
	}
	if err := c.validateHits(); err != nil {
		return err
	}
	if len(c.Policies) > MaxChain {
		return &FieldError{Field: "policies", Problem: fmt.Sprintf("names %d policies, at most %d", len(c.Policies), MaxChain)}
	}
	return ValidateKey(c.Key)
}

var costProblem = fmt.Sprintf("must be 1..%d", plan.MaxCost)

// ValidateKey returns a *FieldError for a key that a caller may not send. A nil key is
// valid.
func ValidateKey(key []string) error {
	if key == nil {
		return nil
	}
	if len(key) == 0 || len(key) > plan.MaxKeyParts {
		return &FieldError{Field: "key", Problem: fmt.Sprintf("must have 1..%d parts", plan.MaxKeyParts)}
	}
	for i, part := range key {
		if problem := KeyProblem(part); problem != "" {
			return &FieldError{Field: fmt.Sprintf("key[%d]", i), Problem: problem}
		}
	}
	return nil
}

// KeyProblem returns why a caller may not send the key part; empty if it may.
func KeyProblem(part string) string {
	switch {
	case part == "":
		return "must not be empty"
	case !utf8.ValidString(part):
		return "must be valid UTF-8"
	case strings.ContainsFunc(part, unicode.IsControl):
		return "must not contain control characters"
	}
	return ""
}

// DescriptorField returns the path of a descriptor in a request.
func DescriptorField(i int) string { return fmt.Sprintf("descriptors[%d]", i) }

func (c *Check) validateHits() error {
	if n := len(c.Attributes.Descriptors); n > MaxDescriptors {
		return &FieldError{Field: "descriptors", Problem: fmt.Sprintf("has %d elements, at most %d", n, MaxDescriptors)}
	}
	if err := (&Response{Code: c.ResponseCode}).validate(); err != nil {
		return err
	}
	for i, hits := range c.Hits {
		zero := hits.Action == HitsCommit && hits.Cost == 0
		if !zero && (hits.Cost < 1 || hits.Cost > plan.MaxCost) {
			return &FieldError{Field: DescriptorField(i) + ".cost", Problem: costProblem}
		}
		if hits.Action != HitsCheck && !isID(strings.TrimPrefix(c.ReservationID, EnvoyIDPrefix)) {
			return &FieldError{Field: DescriptorField(i), Problem: "names a reservation that is not " + idRule}
		}
	}
	return nil
}

// HitsOf returns the hits of the descriptor with that index. For plan.AllDescriptors it returns
// the largest of all, without a requested limit.
func (c *Check) HitsOf(descriptor int) Hits {
	switch {
	case len(c.Hits) == 0:
		return Hits{Cost: c.Cost, Peek: c.Peek}
	case descriptor != plan.AllDescriptors:
		return c.Hits[descriptor]
	}
	largest := c.Hits[0]
	for _, other := range c.Hits[1:] {
		largest = largest.Merge(other)
	}
	largest.Limit = nil
	return largest
}

// Merge returns the hits of two descriptors with the same policy and key: the larger
// cost, where any spending outweighs a peek and any other action outweighs HitsCheck. The result
// keeps the Limit of one of the two.
func (h Hits) Merge(other Hits) Hits {
	if h.Action != other.Action {
		action := max(h.Action, other.Action)
		h.Action, other.Action = action, action
	}
	if h.Peek != other.Peek {
		if h.Peek {
			return other
		}
		return h
	}
	h.Cost = max(h.Cost, other.Cost)
	return h
}

// IsPeek reports whether the check writes nothing.
func (c *Check) IsPeek() bool { return c.HitsOf(plan.AllDescriptors).Peek }
