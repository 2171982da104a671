// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// policyKind returns the kind of RateLimitPolicies. Its controller also handles the signals for all kinds.
func policyKind() *recordKind {
	return &recordKind{
		kind: kind{
			record: plan.KindPlan, name: "RateLimitPolicy", plural: "policies",
			newObject: func() client.Object { return &v1alpha1.RateLimitPolicy{} },
			newList:   func() client.ObjectList { return &v1alpha1.RateLimitPolicyList{} },
			status: func(object client.Object, f *facts) newStatus {
				policy := object.(*v1alpha1.RateLimitPolicy) //nolint:forcetypeassert // of newObject
				status := f.policyStatus(policy)
				return newStatus{&status, status.Conditions, needsWrite(&policy.Status, &status)}
			},
		},
		compile: func(ctx context.Context, r *Reconciler, object client.Object) (*compiledRecord, error) {
			return r.compilePolicy(ctx, object.(*v1alpha1.RateLimitPolicy)) //nolint:forcetypeassert // of newObject
		},
		watch: (*Reconciler).watchForPolicies,
	}
}

// record returns the result for the policy.
func (c *compilation) record(policy *v1alpha1.RateLimitPolicy) *compiledRecord {
	return &compiledRecord{
		judgement: judgement{
			problems: c.problems, warnings: c.warnings,
			withdraws: len(c.problems) > 0 && notAcceptedReason(c.problems) == v1alpha1.ReasonMatchNotPermitted,
		},
		record: c.plan, again: c.again(),
		complete: func(f, earlier *facts) {
			f.requestedAt, f.mode, f.shadow = requestedAt(policy), c.mode(), c.shadow
			f.wiring = earlier.wiring.follow(policy, c.selectors())
			f.resolution = earlier.resolution.follow(policy, earlier.generation)
		},
	}
}

// status returns the status that follows from the facts. A request that was withdrawn stays
// handled.
func (f *facts) policyStatus(policy *v1alpha1.RateLimitPolicy) v1alpha1.RateLimitPolicyStatus {
	inForce := f.inForce(policy.Status.EnforcedGeneration)
	conditions := f.allConditions()
	if wired := f.wiring.condition(policy.Status.Conditions, f.generation); wired != nil {
		conditions = append(conditions, *wired)
	}
	return v1alpha1.RateLimitPolicyStatus{
		Conditions:             keepTransitionTimes(policy.Status.Conditions, conditions),
		ObservedGeneration:     f.generation,
		EnforcedGeneration:     inForce,
		Summary:                f.summary(policy, inForce),
		LastHandledReconcileAt: cmp.Or(f.requestedAt, policy.Status.LastHandledReconcileAt),
		WiredSelectors:         f.wiring.wiredSelectors(policy.Status.WiredSelectors),
	}
}

// inForce returns the generation in force: the generation of the plan that every live replica has, else the earlier
// one. It is 0 if no plan stays for a policy that is not accepted, and nil if none was in force.
func (f *facts) inForce(earlier *int64) *int64 {
	last := f.rollout.Plan()
	switch {
	case f.rollout.OwnedElsewhere || !f.rollout.Reachable:
		return earlier
	case last != nil && last.UID == string(f.uid) && f.rollout.AllReplicasCurrent:
		return new(last.Generation)
	case last == nil && !f.isAccepted() && earlier != nil:
		return new(int64(0))
	default:
		return earlier
	}
}

// summary returns the limits in force, or the limits of the spec while no generation is.
func (f *facts) summary(policy *v1alpha1.RateLimitPolicy, inForce *int64) string {
	last := f.rollout.Plan()
	switch {
	case inForce == nil || *inForce == 0 || *inForce == f.generation:
		return compile.Summary(&policy.Spec) + f.shadow.Summary()
	case last == nil || last.UID != string(f.uid) || last.Generation != *inForce:
		return cmp.Or(policy.Status.Summary, compile.Summary(&policy.Spec))
	case last.Mode == plan.ModeShadow:
		return compile.PlanSummary(last) + f.shadow.Summary()
	default:
		return compile.PlanSummary(last)
	}
}

// needsWrite reports whether the status is to be written. A change of enforcedGeneration or of Warnings
// alone waits for the next write: a new release must not rewrite all statuses.
func needsWrite(was, is *v1alpha1.RateLimitPolicyStatus) bool {
	stripped := func(s *v1alpha1.RateLimitPolicyStatus) *v1alpha1.RateLimitPolicyStatus {
		rest := *s
		rest.EnforcedGeneration = nil
		rest.Conditions = exceptWarnings(s.Conditions)
		return &rest
	}
	return !equality.Semantic.DeepEqual(stripped(was), stripped(is))
}
