// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minRecheckAge and maxRecheckAge are how long after it last asked Redis a denial asks again: as early as the
	// budget of all denials allows. This is how long a lifted denial can stay in a replica that missed the message.
	minRecheckAge = time.Second
	maxRecheckAge = 30 * time.Second
	// rechecksPerSecond is the budget. Redis answers each alone, and its caller waits; renew.go asks at less cost.
	rechecksPerSecond = 100
	// While the budget is used up, the age grows by ageGrowth each agePeriod; it falls back to minRecheckAge within
	// ageFall.
	agePeriod = 100 * time.Millisecond
	ageGrowth = 1.2
	ageFall   = 4 * time.Second
)

// rechecks is the budget of the denials that ask Redis again. If it does not suffice for all, the oldest ask: the age
// from which a denial does follows the budget.
type rechecks struct {
	age atomic.Pointer[recheckAge]

	mu       sync.Mutex
	budget   float64 // rechecks that may begin now, at most a second's
	refilled time.Time
}

// recheckAge is the age from which a denial asks again.
type recheckAge struct {
	age   time.Duration
	since time.Time
}

// at returns the age at the time.
func (a *recheckAge) at(now time.Time) time.Duration {
	if a == nil {
		return minRecheckAge
	}
	fallen := float64(now.Sub(a.since)) / float64(ageFall)
	return max(minRecheckAge, time.Duration(float64(a.age)*(1-fallen)))
}

// take reports whether a denial that last asked at the time checked must ask Redis now.
func (r *rechecks) take(checked, now time.Time) bool {
	age := now.Sub(checked)
	if age < r.age.Load().at(now) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refill(now)
	if r.budget < 1 && age < maxRecheckAge {
		r.raiseAge(now)
		return false
	}
	r.budget = max(0, r.budget-1)
	return true
}

// spend takes a question that no caller asks from the budget.
func (r *rechecks) spend(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refill(now)
	r.budget = max(0, r.budget-1)
}

// refill adds the budget since the last time. The caller holds the lock.
func (r *rechecks) refill(now time.Time) {
	passed := now.Sub(r.refilled)
	if passed < time.Millisecond {
		return
	}
	r.budget = min(r.budget+rechecksPerSecond*passed.Seconds(), rechecksPerSecond)
	r.refilled = now
}

// raiseAge raises the age, so that fewer denials ask. The caller holds the lock.
func (r *rechecks) raiseAge(now time.Time) {
	last := r.age.Load()
	if last != nil && now.Sub(last.since) < agePeriod {
		return
	}
	age := min(maxRecheckAge, time.Duration(float64(last.at(now))*ageGrowth))
	r.age.Store(&recheckAge{age, now})
}
