// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/warning"
)

// compilation is the result of compiling a policy: a plan, or problems.
type compilation struct {
	uid         types.UID
	generation  int64
	requestedAt string
	unsupported []string
	granted     compile.Grant
	shadow      compile.Shadow
	renewal     time.Time // when the plan is to be compiled again; zero is never

	plan     *plan.Plan
	problems field.ErrorList
	warnings []string // of the policy alone
}

// covers reports whether compiling the policy again would have the same result. A requested
// pass compiles again nevertheless.
func (c *compilation) covers(policy *v1alpha1.RateLimitPolicy, granted compile.Grant, shadow compile.Shadow, now time.Time) bool {
	return (c.renewal.IsZero() || now.Before(c.renewal)) && c.uid == policy.UID && c.generation == policy.Generation && c.requestedAt == requestedAt(policy) &&
		slices.Equal(c.unsupported, policy.Spec.Unsupported) && c.granted.Equal(granted) && c.shadow.Equal(shadow)
}

// compilations holds the last compilation of each policy.
type compilations struct {
	mu   sync.Mutex
	last map[types.NamespacedName]*compilation
}

// of compiles the policy, unless the last compilation covers it. The annotation names a time, and
// calendars have offsets of the next years.
func (c *compilations) of(policy *v1alpha1.RateLimitPolicy, granted compile.Grant, now time.Time) *compilation {
	name := client.ObjectKeyFromObject(policy)
	shadow := compile.ShadowOf(policy, now)
	c.mu.Lock()
	last := c.last[name]
	c.mu.Unlock()
	if last != nil && last.covers(policy, granted, shadow, now) {
		return last
	}
	next := &compilation{
		uid: policy.UID, generation: policy.Generation, requestedAt: requestedAt(policy), unsupported: policy.Spec.Unsupported, granted: granted, shadow: shadow,
		renewal: compile.NextRenewal(policy, now),
	}
	next.plan, next.problems = shadow.Apply(compile.Compile(policy, granted, now))
	if next.plan != nil {
		next.warnings = warning.OfPlan(next.plan)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[types.NamespacedName]*compilation{}
	}
	c.last[name] = next
	return next
}

// again returns when the policy is to be compiled again without a change; zero is never.
func (c *compilation) again() time.Time {
	if next := c.shadow.Next; !next.IsZero() && (c.renewal.IsZero() || next.Before(c.renewal)) {
		return next
	}
	return c.renewal
}

// mode returns the mode of the plan, "" without one.
func (c *compilation) mode() plan.Mode {
	if c.plan == nil {
		return ""
	}
	return c.plan.Mode
}

// selectors returns plan.Plan.Selectors, "" without a plan.
func (c *compilation) selectors() string {
	if c.plan == nil {
		return ""
	}
	return c.plan.Selectors()
}

func (c *compilations) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, name)
}

// retain forgets all policies but these.
func (c *compilations) retain(policies []reconcile.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	retained := make(map[types.NamespacedName]*compilation, len(policies))
	for _, policy := range policies {
		if last := c.last[policy.NamespacedName]; last != nil {
			retained[policy.NamespacedName] = last
		}
	}
	c.last = retained
}
