// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// exceptionSuffix is the StateSuffix of limits that refill at the rate of an exception. The name of an
// override cannot contain it. All exceptions of a key share it: with a state for each name, a new
// exception would be a full bucket.
const exceptionSuffix = "+exception"

// Excepts reports whether the exception changes the limit with the name.
func (e *Exception) Excepts(limit string) bool { return e.numbersOf(limit) != nil }

func (e *Exception) numbersOf(limit string) *ExceptionLimit {
	i := slices.IndexFunc(e.Limits, func(l ExceptionLimit) bool { return l.Name == limit })
	if i < 0 {
		return nil
	}
	return &e.Limits[i]
}

// Apply returns the limits, which are the limits of a policy with or without an override, with the numbers of the
// exception.
func (e *Exception) Apply(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		if numbers := e.numbersOf(limits[i].Name); numbers != nil {
			limits[i] = numbers.apply(limits[i])
		}
	}
	return limits
}

func (n *ExceptionLimit) apply(l Limit) Limit {
	l.Threshold = cmp.Or(n.Threshold, l.Threshold)
	l.Burst = cmp.Or(n.Burst, l.Burst)
	if n.Threshold != 0 {
		return l.inExceptionState()
	}
	return l
}

// inExceptionState returns the limit with the state that exceptions with another rate count in.
func (l Limit) inExceptionState() Limit {
	if l.Algorithm.Refills() {
		l.StateSuffix = exceptionSuffix
	}
	return l
}

// InExceptionStates returns the limits with the states in which they count under an exception that changes
// the threshold of each.
func InExceptionStates(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i] = limits[i].inExceptionState()
	}
	return limits
}

// EndsAfter reports whether e applies, not other, of two exceptions for one key: the one that ends last or, if they
// end together, the first by name.
func (e *Exception) EndsAfter(other *Exception) bool {
	return cmp.Or(cmp.Compare(other.UntilMillis, e.UntilMillis), cmp.Compare(e.Name, other.Name)) < 0
}

// CheckException returns why the exception cannot apply to the plan, or nil: an unknown limit, or numbers that
// the limit must not have, with the plan's own numbers or with an override's. All reasons are joined.
func (p *Plan) CheckException(e *Exception) error {
	var errs []error
	for i := range e.Limits {
		if err := p.checkNumbers(fmt.Sprintf("limits[%d]", i), &e.Limits[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkNumbers returns the first problem of the limit with these numbers.
func (p *Plan) checkNumbers(at string, numbers *ExceptionLimit) error {
	index := slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Name == numbers.Name })
	if index < 0 {
		return fmt.Errorf("%s.name %q is no limit of the policy", at, numbers.Name)
	}
	var problem error
	fail := func(format string, args ...any) { problem = cmp.Or(problem, fmt.Errorf(format, args...)) }
	p.validateLimit(fail, at, numbers.apply(p.Limits[index]))
	for i := range p.Overrides {
		if o := &p.Overrides[i]; o.Action == ActionLimit {
			limit := numbers.apply(p.LimitsOf(o)[index])
			p.validateLimit(fail, fmt.Sprintf("%s with override %s", at, o.Name), limit)
		}
	}
	return problem
}

// LargestThreshold returns the largest threshold that the limit has, in the policy or in an override.
func (p *Plan) LargestThreshold(limit string) int64 { return p.largest(limit, thresholdOf) }

// LargestBurst returns the largest burst that the limit has, in the policy or in an override.
func (p *Plan) LargestBurst(limit string) int64 { return p.largest(limit, burstOf) }

func thresholdOf(l *Limit) int64 { return l.Threshold }
func burstOf(l *Limit) int64     { return l.Burst }

// largest returns the largest number that the limit has, in the policy or in an override; 0 for an unknown limit.
func (p *Plan) largest(limit string, number func(*Limit) int64) (largest int64) {
	include := func(limits []Limit) {
		for i := range limits {
			if limits[i].Name == limit {
				largest = max(largest, number(&limits[i]))
			}
		}
	}
	include(p.Limits)
	for i := range p.Overrides {
		include(p.LimitsOf(&p.Overrides[i]))
	}
	return largest
}
