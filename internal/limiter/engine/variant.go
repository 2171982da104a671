// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// variant holds the limits of a policy with the numbers of one override, or with the
// policy's own.
type variant struct {
	override       string          // name of the override; empty for the policy's own numbers
	exception      *plan.Exception // whose numbers replace the override's; nil without one
	replaced       *variant        // the variant without the exception; nil without one
	limits         []plan.Limit
	quotas         []int64 // of limits, in the same order
	smallestQuota  int64
	concurrent     bool                              // a limit uses Concurrency
	stored         *store.Policy                     // as stores take it
	trial          *trial                            // nil if no limit has one
	lastPerReplica atomic.Pointer[perReplicaVariant] // see perReplica
}

// withoutException returns the variant without the exception, or v itself without one.
func (v *variant) withoutException() *variant { return cmp.Or(v.replaced, v) }

// exceptionName returns the name of the exception, or "".
func (v *variant) exceptionName() string {
	if v.exception == nil {
		return ""
	}
	return v.exception.Name
}

// trial is a variant with candidates in place of limits.
type trial struct {
	*variant
	replaced []int // indexes of the limits that have a candidate
}

// newVariant returns the variant without the form for stores, which depends on all variants of
// the policy.
func newVariant(p *plan.Plan, override string, limits []plan.Limit) *variant {
	v := &variant{override: override, limits: limits, quotas: make([]int64, len(limits)), smallestQuota: plan.MaxCost}
	for i, l := range limits {
		v.quotas[i] = p.Quota(l)
		v.smallestQuota = min(v.smallestQuota, v.quotas[i])
		v.concurrent = v.concurrent || l.Algorithm == plan.Concurrency
	}
	return v
}

func (v *variant) storedLimits() []store.Limit {
	limits := make([]store.Limit, len(v.limits))
	for i, l := range v.limits {
		var calendar store.Calendar // nil, not a nil *plan.Calendar
		if l.Calendar != nil {
			calendar = l.Calendar
		}
		limits[i] = store.Limit{
			Name:        l.Name,
			Algorithm:   store.AlgorithmNamed(string(l.Algorithm)),
			Quota:       v.quotas[i],
			Threshold:   l.Threshold,
			HardQuota:   l.HardQuota(),
			Window:      l.Window(),
			Calendar:    calendar,
			Bucket:      l.Bucket(),
			Block:       l.Block(),
			Escalation:  escalationOf(&l),
			StateSuffix: l.StateSuffix,
		}
	}
	return limits
}

// escalationOf returns how the blocks of the limit become longer, nil if they do not.
func escalationOf(l *plan.Limit) *store.Escalation {
	if len(l.BlocksMillis) == 0 {
		return nil
	}
	e := &store.Escalation{Window: time.Duration(l.EscalationMillis) * time.Millisecond}
	for _, millis := range l.BlocksMillis {
		e.Lengths = append(e.Lengths, time.Duration(millis)*time.Millisecond)
	}
	return e
}

// limitBelow returns the name of the first limit whose quota is less than the cost.
func (v *variant) limitBelow(cost int64) string {
	return v.limits[slices.IndexFunc(v.quotas, func(units int64) bool { return units < cost })].Name
}

// perReplicaVariant is the variant that one of several replicas decides with.
type perReplicaVariant struct {
	replicas int64
	variant  *variant
}

// perReplica returns the variant with every threshold, burst and quota divided by the number of
// replicas and rounded up. It counts in the same states, so a change of the number of replicas acts like
// an edit of the policy.
func (v *variant) perReplica(replicas int64) *variant {
	if replicas <= 1 {
		return v
	}
	if last := v.lastPerReplica.Load(); last != nil && last.replicas == replicas {
		return last.variant
	}
	divide := func(n int64) int64 { return (n + replicas - 1) / replicas }
	divided := &variant{
		override: v.override, exception: v.exception, replaced: v.replaced,
		limits: slices.Clone(v.limits), quotas: make([]int64, len(v.quotas)),
		smallestQuota: divide(v.smallestQuota), concurrent: v.concurrent, stored: v.stored.PerReplica(replicas),
	}
	for i := range divided.limits {
		l := &divided.limits[i]
		l.Threshold, l.Burst = divide(l.Threshold), divide(l.Burst)
		divided.quotas[i] = divide(v.quotas[i])
	}
	v.lastPerReplica.Store(&perReplicaVariant{replicas: replicas, variant: divided})
	return divided
}

// maxDerived bounds the variants in one cache. When there are more, the cache is emptied and fills with the
// variants that are still in use.
const maxDerived = 256

// variantCache has variants of a policy that were derived for a request.
type variantCache struct {
	used atomic.Pointer[cachedVariants]
} // nil while it is empty

type cachedVariants struct {
	all   sync.Map
	count atomic.Int64
}

// get returns the variant with the key, which derive makes if it is missing.
func (c *variantCache) get(key any, derive func() *variant) *variant {
	used := c.used.Load()
	if used == nil {
		c.used.CompareAndSwap(nil, &cachedVariants{})
		used = c.used.Load()
	}
	return used.get(key, derive)
}

func (c *cachedVariants) get(key any, derive func() *variant) *variant {
	if found, ok := c.all.Load(key); ok {
		return found.(*variant) //nolint:forcetypeassert // only variants are stored
	}
	v := derive()
	if c.count.Add(1) > maxDerived {
		c.all.Clear()
		c.count.Store(1)
	}
	c.all.Store(key, v)
	return v
}
