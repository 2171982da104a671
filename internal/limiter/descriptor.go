// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// MaxDescriptors is the largest number of descriptors in one check.
const MaxDescriptors = 64

// Charge is what a check asks for by one of its descriptors.
type Charge struct {
	// Cost is the units to spend, 1..plan.MaxThreshold.
	Cost int64
	// Peek evaluates and writes nothing.
	Peek bool
	// Limit, when not nil, is a limit that the caller knows better than the policy.
	Limit *RequestedLimit
}

// DescriptorState is one descriptor after a decision.
type DescriptorState struct {
	// Allowed says whether no policy refused that applies by this descriptor.
	Allowed bool
	// Tightest is the limit that says most of the descriptor, nil where none took
	// part. Limits in mode Shadow say nothing.
	Tightest *LimitState
	// RetryAfter is how long until no limit of the descriptor refuses; 0 when it is
	// allowed or when waiting does not help.
	RetryAfter time.Duration
}

// charge returns what the check asks for by that descriptor. A policy that
// applies whatever the descriptors are is asked for the largest charge of all, and
// keeps its own limits: none of them is about it.
func (c *Check) charge(descriptor int) Charge {
	switch {
	case len(c.Charges) == 0:
		return Charge{Cost: c.Cost, Peek: c.Peek}
	case descriptor != plan.AnyDescriptor:
		return c.Charges[descriptor]
	}
	largest := c.Charges[0]
	for _, other := range c.Charges[1:] {
		largest = largest.or(other)
	}
	largest.Limit = nil
	return largest
}

// or returns the larger charge: to spend anything is more than to peek.
func (c Charge) or(other Charge) Charge {
	if c.Peek != other.Peek {
		if c.Peek {
			return other
		}
		return c
	}
	c.Cost = max(c.Cost, other.Cost)
	return c
}

// peeks reports whether the check writes nothing.
func (c *Check) peeks() bool { return c.charge(plan.AnyDescriptor).Peek }

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

// descriptors are places in a list of at most MaxDescriptors, as bits.
type descriptors uint64

func only(descriptor int) descriptors {
	if descriptor == plan.AnyDescriptor {
		return ^descriptors(0)
	}
	return 1 << descriptor
}

func (d descriptors) have(descriptor int) bool { return d&only(descriptor) != 0 }

// descriptorStates says of each of n descriptors what its policies said.
func (v *evaluation) descriptorStates(d *Decision, n int) []DescriptorState {
	states := make([]DescriptorState, n)
	for i := range states {
		states[i].Allowed = true
		for _, r := range v.refusals {
			if r.enforces() && r.descriptors.have(i) {
				states[i].Allowed = false
			}
		}
	}
	limits := d.Limits
	for i, a := range v.asked {
		refuses := v.refuses(i, d)
		of := limits[:min(len(a.limits), len(limits))] // none if Redis did not answer
		limits = limits[len(of):]
		for j := range states {
			if a.descriptors.have(j) {
				states[j].take(of, refuses)
			}
		}
	}
	return states
}

// take adds what one policy said.
func (s *DescriptorState) take(limits []LimitState, refuses bool) {
	s.Allowed = s.Allowed && !refuses
	for i := range limits {
		l := &limits[i]
		if l.Shadow {
			continue
		}
		if s.Tightest == nil || l.TighterThan(s.Tightest) {
			s.Tightest = l
		}
		if refuses {
			s.RetryAfter = max(s.RetryAfter, l.RetryAfter)
		}
	}
}

// refuses reports whether the i-th policy asked is one that refused the check.
func (v *evaluation) refuses(i int, d *Decision) bool {
	a, entry := v.asked[i], &v.call.Entries[i]
	switch {
	case !a.enforces():
		return false
	case entry.Cost > a.smallestQuota:
		return true
	case v.reply != nil:
		return v.reply.Entries[i].Verdict != script.Admitted
	default:
		return d.Degraded == plan.FailClosed && a.plan.FailureMode == plan.FailClosed
	}
}

// TighterThan reports whether the limit says more than the other to somebody who
// hears of one limit only: one that refuses before one that does not, then less
// that is left, then the longer time.
func (l *LimitState) TighterThan(other *LimitState) bool {
	switch {
	case l.Allowed != other.Allowed:
		return other.Allowed
	case l.Remaining != other.Remaining:
		return l.Remaining < other.Remaining
	default:
		return l.ResetAfter > other.ResetAfter
	}
}
