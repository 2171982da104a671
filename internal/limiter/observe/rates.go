// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"math"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
)

const (
	// decisionValues are the numbers of allowed, denied and, in mode Shadow, denied decisions.
	decisionValues = 3
	// candidateValues count verdicts that only candidates deny or allow.
	candidateValues = 2
)

// values are the counters of a policy: the decisionValues and the candidateValues.
type values [decisionValues + candidateValues]uint64

// sample has the values of one RatePeriod.
type sample [decisionValues + candidateValues]uint32

// series are the samples of the last hour, in a ring.
type series [limiter.RateSamples]sample

// rates samples the counters of decisions.
type rates struct {
	// last are the counters at the last sample, of all policies.
	last     map[string]values
	policies map[string]*series // of those with decisions in the last hour, at most maxPolicies
	total    series
	// slot is the number of RatePeriods from 1970 to the end of the last sample, which is the current one;
	// 0 before the first.
	slot int64
}

func newRates() *rates {
	return &rates{last: map[string]values{}, policies: map[string]*series{}}
}

// slotOf returns the number of whole RatePeriods since 1970.
func slotOf(t time.Time) int64 { return t.Unix() / int64(limiter.RatePeriod/time.Second) }

// sample begins the sample of the current RatePeriod, if it is a new one. Decisions since the last call belong to
// the sample before, or after a gap to the new one.
func (r *rates) sample(now time.Time, each func(visit func(policy string, n limiter.DecisionCounts))) {
	slot := slotOf(now) + 1
	if slot <= r.slot {
		return
	}
	isNext := slot == r.slot+1
	if isNext {
		r.add(each)
	}
	r.clear(max(r.slot+1, slot-limiter.RateSamples+1), slot)
	r.slot = slot
	if !isNext {
		r.add(each)
	}
}

// refresh is sample with the decisions until now. It takes longer: call it for a reader.
func (r *rates) refresh(now time.Time, each func(visit func(policy string, n limiter.DecisionCounts))) {
	r.sample(now, each)
	r.add(each)
}

// add adds the decisions since the last call to the last sample.
func (r *rates) add(each func(visit func(policy string, n limiter.DecisionCounts))) {
	next := make(map[string]values, len(r.last))
	each(func(policy string, n limiter.DecisionCounts) {
		v := values{n.Allowed, n.Denied, n.ShadowDenied, n.CandidateDenied, n.CandidateAllowed}
		for i, earlier := range next[policy] {
			v[i] += earlier
		}
		next[policy] = v
	})
	at := r.slot % limiter.RateSamples
	for policy, v := range next {
		delta, decided := deltaOf(v, r.last[policy])
		if !decided {
			continue
		}
		addTo(&r.total[at], delta)
		if s := r.of(policy); s != nil {
			addTo(&s[at], delta)
		}
	}
	r.last = next
}

// clear sets the samples of the slots to 0, and forgets policies without decisions in the last hour.
func (r *rates) clear(begin, end int64) {
	for slot := begin; slot <= end; slot++ {
		r.total[slot%limiter.RateSamples] = sample{}
		for _, s := range r.policies {
			s[slot%limiter.RateSamples] = sample{}
		}
	}
	for policy, s := range r.policies {
		if *s == (series{}) {
			delete(r.policies, policy)
		}
	}
}

// of returns the samples of the policy, nil if there are too many policies.
func (r *rates) of(policy string) *series {
	s := r.policies[policy]
	if s == nil && len(r.policies) < maxPolicies {
		s = &series{}
		r.policies[policy] = s
	}
	return s
}

// deltaOf returns the decisions since the last sample. A counter that is lower was begun again.
func deltaOf(now, last values) (delta values, decided bool) {
	for i := range now {
		delta[i] = now[i] - last[i]
		if now[i] < last[i] {
			delta[i] = now[i]
		}
		decided = decided || delta[i] > 0
	}
	return delta, decided
}

func addTo(to *sample, delta values) {
	for i, n := range delta {
		to[i] = uint32(min(uint64(to[i])+n, math.MaxUint32))
	}
}
