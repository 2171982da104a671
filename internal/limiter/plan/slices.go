// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"
)

// Bounds of slices.
const (
	// MaxSlicesPercent is the most that slices may hold, in percent of a quota.
	MaxSlicesPercent = 50
	// MinSliceAge and MaxSliceAge bound how long a replica spends from a slice. MinAgesPerWindow is how many ages
	// the shortest window must have.
	MinSliceAge      = 500 * time.Millisecond
	MaxSliceAge      = 10 * time.Second
	MinAgesPerWindow = 20
	// MinSlicedQuota is the smallest quota of a limit with slices.
	MinSlicedQuota = 100
)

// Slices bounds the units that replicas take in advance. The zero value allows none.
type Slices struct {
	// MaxPercent is the most that all slices of one key hold, in percent of the smallest quota.
	MaxPercent int64 `json:"maxPercent"`
	// MaxAgeMillis is how long a replica spends from a slice, in milliseconds.
	MaxAgeMillis int64 `json:"maxAgeMillis"`
}

// Allowed reports whether replicas may take slices.
func (s Slices) Allowed() bool { return s.MaxPercent > 0 }

// MaxAge returns how long a replica spends from a slice.
func (s Slices) MaxAge() time.Duration { return time.Duration(s.MaxAgeMillis) * time.Millisecond }

// FieldProblem is a problem of one field of a policy.
type FieldProblem struct {
	// Field is the path of the field within the spec.
	Field   string
	Problem string
}

// SliceProblems returns what keeps a plan with slices from having them. Its other parts must be valid.
func (p *Plan) SliceProblems() (problems []FieldProblem) {
	if p.Slices == (Slices{}) {
		return nil
	}
	fail := func(field, format string, args ...any) {
		problems = append(problems, FieldProblem{field, fmt.Sprintf(format, args...)})
	}
	p.checkSliceBounds(fail)
	if p.Counting != CountAdmitted {
		fail("slices", "needs counting Admitted")
	}
	if p.Reservations.Allowed() {
		fail("slices", "must not be set together with reservations")
	}
	if len(p.Candidates) > 0 {
		fail("slices", "must not be set together with a candidate")
	}
	for i, l := range p.Limits {
		p.checkSlicedLimit(fail, fmt.Sprintf("limits[%d]", i), l)
	}
	for i := range p.Overrides {
		p.checkSlicedOverride(fail, i)
	}
	return problems
}

func (p *Plan) checkSliceBounds(fail func(field, format string, args ...any)) {
	s := p.Slices
	if s.MaxPercent < 1 || s.MaxPercent > MaxSlicesPercent {
		fail("slices.maxPercent", "%d is not within 1..%d", s.MaxPercent, MaxSlicesPercent)
	}
	if s.MaxAge() < MinSliceAge || s.MaxAge() > MaxSliceAge {
		fail("slices.maxAge", "%v is not within %v..%v", s.MaxAge(), MinSliceAge, MaxSliceAge)
	}
}

// checkSlicedLimit checks a limit, with or without the numbers of an override.
func (p *Plan) checkSlicedLimit(fail func(field, format string, args ...any), at string, l Limit) {
	if l.Algorithm == Suppressed || l.Algorithm == Concurrency {
		fail(at+".algorithm", "must not be %s in a policy with slices", l.Algorithm)
		return
	}
	if l.LongestBlock() > 0 {
		fail(at, "must start no blocks in a policy with slices")
	}
	if q := p.Quota(l); q < MinSlicedQuota {
		number := "threshold"
		if l.Algorithm.Refills() {
			number = "burst"
		}
		fail(at+"."+number, "must admit at least %d units in a policy with slices, not %d", MinSlicedQuota, q)
	}
	if shortest := l.sliceableTime(); p.Slices.MaxAge() > shortest/MinAgesPerWindow {
		fail("slices.maxAge", "must be at most %v, a twentieth of the time in which the quota of %s is renewed",
			shortest/MinAgesPerWindow, at)
	}
}

// sliceableTime returns the time in which the quota is renewed.
func (l Limit) sliceableTime() time.Duration {
	if l.Algorithm.Refills() {
		return time.Duration(float64(l.Burst) / float64(l.Threshold) * float64(l.Window()))
	}
	return l.NominalWindow()
}

// checkSlicedOverride checks an override: its limits must count in the states of the policy, or a key would have slices
// of several states.
func (p *Plan) checkSlicedOverride(fail func(field, format string, args ...any), i int) {
	o := &p.Overrides[i]
	for j := range o.Limits {
		at := fmt.Sprintf("overrides[%d].limits[%d]", i, j)
		for k, l := range p.LimitsOf(o) {
			switch {
			case l.Name != o.Limits[j].Name:
			case l.StateSuffix != "":
				fail(at+".threshold", "must not be set for %s in a policy with slices: another rate has a state of its own", l.Algorithm)
			case l.WindowMillis != p.Limits[k].WindowMillis:
				fail(at+".window", "must not be set in a policy with slices: another window has a state of its own")
			default:
				p.checkSlicedLimit(fail, at, l)
			}
		}
	}
}

func (p *Plan) validateSlices(fail func(string, ...any)) {
	for _, problem := range p.SliceProblems() {
		fail("%s: %s", problem.Field, problem.Problem)
	}
}
