// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// exception is an exception of one policy, prepared for deciding.
type exception struct {
	*plan.Exception

	end      time.Time
	last     atomic.Pointer[variant] // the one of variants that variantOf returned last
	variants variantCache            // by the *variant of the policy whose numbers the exception replaces
}

// exceptions are the exceptions of one policy: for each key the one that ends last. They are immutable.
type exceptions struct {
	byKey map[store.Key]*exception
	now   func() time.Time // the clock by which exceptions end
}

// inForce returns the exception for the key, or nil. A nil receiver has none.
func (all *exceptions) inForce(key store.Key) *exception {
	if all == nil {
		return nil
	}
	found := all.byKey[key]
	if found == nil || !all.now().Before(found.end) {
		return nil
	}
	return found
}

// newExceptions returns the exceptions of the policy, or nil for an empty set. It ignores exceptions that
// do not fit the plan: the policy has been edited since the leader accepted them. An exception
// keeps the variants that it had in previous, which may be nil.
func newExceptions(p *plan.Plan, all []*plan.Exception, previous *exceptions, now func() time.Time) *exceptions {
	byKey := make(map[store.Key]*exception, len(all))
	for _, e := range all {
		parts := e.Key
		if len(parts) == 0 { // the budget of requests that lack every part
			parts = make([]string, len(p.Key))
		}
		key := store.EncodeKey(parts...)
		if p.CheckException(e) != nil || byKey[key] != nil && byKey[key].EndsAfter(e) {
			continue
		}
		if previous != nil && previous.byKey[key] != nil && previous.byKey[key].Exception == e {
			byKey[key] = previous.byKey[key]
		} else {
			byKey[key] = &exception{Exception: e, end: e.Until()}
		}
	}
	if len(byKey) == 0 {
		return nil
	}
	return &exceptions{byKey: byKey, now: now}
}

// state returns what operators see of the exception. A nil receiver has none.
func (e *exception) state() *limiter.Exception {
	if e == nil {
		return nil
	}
	return &limiter.Exception{Name: e.Name, Action: e.Action, Until: e.end, Reason: e.Reason}
}

// exempts reports whether the exception exempts its key from the policy. A nil receiver does not.
func (e *exception) exempts() bool { return e != nil && e.Action == plan.ActionAllow }

// variantOf returns the variant of the plan with the numbers of the exception in place of the
// variant's. A nil receiver, and one that exempts the key, changes nothing.
func (e *exception) variantOf(p *plan.Plan, v *variant) *variant {
	if e == nil || e.exempts() {
		return v
	}
	if last := e.last.Load(); last != nil && last.replaced == v {
		return last // as for nearly every check of a key
	}
	found := e.variants.get(v, func() *variant { return e.newVariant(p, v) })
	e.last.Store(found)
	return found
}

func (e *exception) newVariant(p *plan.Plan, replaced *variant) *variant {
	v := newVariant(p, replaced.override, e.Apply(replaced.limits))
	v.exception, v.replaced = e.Exception, replaced
	v.stored = replaced.stored.NewExcepted(v.storedLimits())
	v.trial = e.trialOf(p, v)
	return v
}

// trialOf returns the trial of a variant with the numbers of the exception, or nil. A limit that the
// exception changes has no candidate.
func (e *exception) trialOf(p *plan.Plan, v *variant) *trial {
	before := v.replaced.trial
	if before == nil {
		return nil
	}
	var tried []int
	limits := slices.Clone(v.limits)
	for _, i := range before.replaced {
		if !e.Excepts(limits[i].Name) {
			limits[i] = before.limits[i]
			tried = append(tried, i)
		}
	}
	if len(tried) == 0 {
		return nil
	}
	c := &trial{variant: newVariant(p, v.override, limits), replaced: tried}
	c.stored = before.stored.NewExcepted(c.storedLimits())
	return c
}
