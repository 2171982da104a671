// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// capacity is how many more policies and limits of one Namespace can take part in a check. A policy counts
// once for each of its keys. A nil capacity is unbounded.
type capacity struct {
	policies, limits int
	total            *capacity // of all Namespaces; nil for the total itself
}

// has reports whether there is room for a policy with that number of limits.
func (r *capacity) has(limits int) bool {
	return r == nil || r.policies > 0 && r.limits >= limits && r.total.has(limits)
}

// take takes the room of a policy with that number of limits.
func (r *capacity) take(limits int) {
	if r != nil {
		r.policies, r.limits = r.policies-1, r.limits-limits
		r.total.take(limits)
	}
}

// fit reports whether the policies fit into a chain, whatever their Namespaces are.
func fit(found []matchedPolicy) bool {
	if len(found) > plan.MaxNamespacePolicies {
		return false
	}
	limits := 0
	for i := range found {
		limits += len(found[i].plan.Limits)
	}
	return limits <= plan.MaxNamespaceLimits
}

// queuesOf divides the policies by Namespace, in the order of addInTurn: those whose conditions failed come last.
func queuesOf(found []matchedPolicy) [][]matchedPolicy {
	return byNamespace(found, func(p *matchedPolicy) (*policy, bool) { return p.policy, p.failed })
}

// uncheckedPolicy is a policy that applies and whose limits were not evaluated, for a reason that
// does not concern the others. Its failureMode decides; Local is as Open.
type uncheckedPolicy struct {
	*policy
	cause       store.Cause
	descriptors descriptorSet
}

// reason returns the reason of a decision that the failureMode of the policy makes.
func (u *uncheckedPolicy) reason() limiter.Reason {
	if u.cause == store.CauseExpressions {
		return limiter.ReasonExpressionsOverBudget
	}
	return limiter.ReasonStoreUnavailable
}

// denies reports whether the policy denies the check.
func (u *uncheckedPolicy) denies() bool { return u.enforces() && u.plan.FailureMode == plan.FailClosed }
