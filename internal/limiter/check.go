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
	// Policies names a chain of policies that is evaluated as one; their
	// matches are skipped. Empty means every policy that matches Attributes.
	Policies []string
	// Key, when not nil, stands in for the policies' own key parts. No part may
	// be empty, hold control characters or be anything but UTF-8.
	Key []string
	// Attributes are the facts of the request; the engine normalises them in
	// place.
	Attributes plan.Attributes
	// Cost is the units the request spends, 1..plan.MaxThreshold.
	Cost int64
	// Peek evaluates and writes nothing.
	Peek bool
	// Charges, when not nil, take the place of Cost and Peek: one for each of
	// Attributes.Descriptors, in the same order. A policy that several of them
	// charge with the same key spends once, the largest cost.
	Charges []Charge
}

// Charge is what a check asks for by one of its descriptors.
type Charge struct {
	// Cost is the units to spend, 1..plan.MaxThreshold.
	Cost int64
	// Peek evaluates and writes nothing.
	Peek bool
	// Limit, when not nil, is a limit that the caller knows better than the policy.
	Limit *RequestedLimit
}

// RequestedLimit is a limit that comes with a request, where whoever sends it
// knows the caller's contract: so many units per window. It takes the place of the
// policy's limit with that window, or of the only one there is. To what counts units
// it is what an edit of the policy between two requests would be; what refills has
// another state for it.
type RequestedLimit struct {
	// Units is 0 or more; with 0 nothing passes.
	Units int64
	// Window is one of RequestableWindows.
	Window time.Duration
}

// RequestableWindows are the windows a RequestedLimit may have.
var RequestableWindows = []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}

// Validate returns a *FieldError if the check breaks a rule.
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

// ValidateKey checks a key that a caller gave; nil is none.
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

// KeyProblem says what is wrong with a part of a key that a caller gave; it is
// empty when nothing is.
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

// ChargeOf returns what the check asks for by that descriptor. A policy that
// applies whatever the descriptors are is asked for the largest charge of all, and
// keeps its own limits: none of them is about it.
func (c *Check) ChargeOf(descriptor int) Charge {
	switch {
	case len(c.Charges) == 0:
		return Charge{Cost: c.Cost, Peek: c.Peek}
	case descriptor != plan.AnyDescriptor:
		return c.Charges[descriptor]
	}
	largest := c.Charges[0]
	for _, other := range c.Charges[1:] {
		largest = largest.Larger(other)
	}
	largest.Limit = nil
	return largest
}

// Larger returns the larger charge: to spend anything is more than to peek.
func (c Charge) Larger(other Charge) Charge {
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
func (c *Check) IsPeek() bool { return c.ChargeOf(plan.AnyDescriptor).Peek }
