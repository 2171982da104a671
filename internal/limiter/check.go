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
const MaxDescriptors = 64

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
	// Cost is the number of units to spend, 1..plan.MaxThreshold.
	Cost int64
	// Peek evaluates the check and writes nothing.
	Peek bool
	// Charges, when not nil, replaces Cost and Peek with one charge for each of
	// Attributes.Descriptors, in the same order. If several charges apply to the
	// same policy and key, only the largest is spent.
	Charges []Charge
}

// Charge is what one descriptor of a check spends.
type Charge struct {
	// Cost is the number of units to spend, 1..plan.MaxThreshold.
	Cost int64
	// Peek evaluates the check and writes nothing.
	Peek bool
	// Limit, when not nil, replaces a limit of the policy for this check.
	Limit *RequestedLimit
}

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
	if len(c.Charges) == 0 && (c.Cost < 1 || c.Cost > plan.MaxThreshold) {
		return &FieldError{Field: "cost", Problem: costProblem}
	}
	if err := c.validateCharges(); err != nil {
		return err
	}
	if len(c.Policies) > MaxChain {
		return &FieldError{Field: "policies", Problem: fmt.Sprintf("names %d policies, at most %d", len(c.Policies), MaxChain)}
	}
	return ValidateKey(c.Key)
}

var costProblem = fmt.Sprintf("must be 1..%d", plan.MaxThreshold)

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
		return "must not hold control characters"
	}
	return ""
}

func (c *Check) validateCharges() error {
	if n := len(c.Attributes.Descriptors); n > MaxDescriptors {
		return &FieldError{Field: "descriptors", Problem: fmt.Sprintf("has %d elements, at most %d", n, MaxDescriptors)}
	}
	for i, charge := range c.Charges {
		if charge.Cost < 1 || charge.Cost > plan.MaxThreshold {
			return &FieldError{Field: fmt.Sprintf("descriptors[%d].cost", i), Problem: costProblem}
		}
	}
	return nil
}

// ChargeOf returns the charge of the descriptor with that index. For plan.AllDescriptors
// it returns the largest charge of all, without a requested limit.
func (c *Check) ChargeOf(descriptor int) Charge {
	switch {
	case len(c.Charges) == 0:
		return Charge{Cost: c.Cost, Peek: c.Peek}
	case descriptor != plan.AllDescriptors:
		return c.Charges[descriptor]
	}
	largest := c.Charges[0]
	for _, other := range c.Charges[1:] {
		largest = largest.Merge(other)
	}
	largest.Limit = nil
	return largest
}

// Merge returns the charge of two descriptors with the same policy and key: the larger
// cost, where any spending outweighs a peek. The result keeps the Limit of one of the two.
func (c Charge) Merge(other Charge) Charge {
	if c.Peek != other.Peek {
		if c.Peek {
			return other
		}
		return c
	}
	c.Cost = max(c.Cost, other.Cost)
	return c
}

// IsPeek reports whether the check writes nothing.
func (c *Check) IsPeek() bool { return c.ChargeOf(plan.AllDescriptors).Peek }
