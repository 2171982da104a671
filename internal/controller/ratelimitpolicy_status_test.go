// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	at := field.NewPath("spec", "limits")
	current := &plan.Plan{UID: "u", Generation: 3}
	earlier := &plan.Plan{UID: "u", Generation: 2}
	enforced := plan.Rollout{Reachable: true, Record: current, HasReplicas: true, AllReplicasCurrent: true}
	with := func(change func(*plan.Rollout)) plan.Rollout {
		r := enforced
		change(&r)
		return r
	}
	invalid := field.ErrorList{field.Invalid(at, 1, "cannot be")}
	unsupported := field.ErrorList{field.NotSupported(at, 1, []string{"2"})}
	forbidden := field.ErrorList{field.Forbidden(at, "not granted")}

	for name, tc := range map[string]struct {
		problems   field.ErrorList
		rollout    plan.Rollout
		resolution resolution
		// "<type> <status> <reason>", as the status lists them
		want  []string
		event eventContent
	}{
		"all is well": {
			rollout: enforced,
			want:    []string{"Ready True Ready", "Accepted True Accepted", "Programmed True Programmed", "Enforced True Enforced"},
			event:   eventContent{"Normal", "Ready", "Every live replica enforces this generation."},
		},
		"no replica is alive": {
			rollout: with(func(r *plan.Rollout) { r.HasReplicas, r.AllReplicasCurrent = false, false }),
			want: []string{
				"Ready False NotReady", "Accepted True Accepted", "Programmed True Programmed", "Enforced False NoReplicas",
				"Reconciling True NoReplicas",
			},
		},
		"a replica is behind": {
			rollout: with(func(r *plan.Rollout) { r.AllReplicasCurrent = false }),
			want: []string{
				"Ready False NotReady", "Accepted True Accepted", "Programmed True Programmed", "Enforced False ReplicasBehind",
				"Reconciling True ReplicasBehind",
			},
		},
		"the plan is being written": {
			rollout: with(func(r *plan.Rollout) { r.Record = earlier }),
			want: []string{
				"Ready False NotReady", "Accepted True Accepted", "Programmed False Publishing", "Enforced False NotProgrammed",
				"Reconciling True Publishing",
			},
		},
		"the plan is of an earlier policy of that name": {
			rollout: with(func(r *plan.Rollout) { r.Record = &plan.Plan{UID: "other", Generation: 3} }),
			want: []string{
				"Ready False NotReady", "Accepted True Accepted", "Programmed False Publishing", "Enforced False NotProgrammed",
				"Reconciling True Publishing",
			},
		},
		"there is no plan": {
			rollout: with(func(r *plan.Rollout) { r.Record = nil }),
			want: []string{
				"Ready False NotReady", "Accepted True Accepted", "Programmed False Publishing", "Enforced False NotProgrammed",
				"Reconciling True Publishing",
			},
		},
		"Redis does not answer": {
			rollout: with(func(r *plan.Rollout) { r.Reachable = false }),
			want: []string{
				"Ready Unknown Pending", "Accepted True Accepted", "Programmed Unknown RegistryUnreachable",
				"Enforced Unknown RegistryUnreachable", "Reconciling True RegistryUnreachable",
			},
		},
		"Redis does not answer, after it was owned elsewhere": {
			rollout: with(func(r *plan.Rollout) { r.Reachable, r.OwnedElsewhere = false, true }),
			want: []string{
				"Ready Unknown Pending", "Accepted True Accepted", "Programmed Unknown RegistryUnreachable",
				"Enforced Unknown RegistryUnreachable", "Reconciling True RegistryUnreachable",
			},
		},
		"the registry is owned elsewhere": {
			rollout: with(func(r *plan.Rollout) { r.OwnedElsewhere = true }),
			want: []string{
				"Ready False NotReady", "Accepted True Accepted", "Programmed False RegistryOwnedElsewhere",
				"Enforced False NotProgrammed", "Reconciling True RegistryOwnedElsewhere",
			},
		},
		"a replica is too old": {
			rollout: with(func(r *plan.Rollout) { r.ReplicasTooOld, r.AllReplicasCurrent = true, false }),
			want: []string{
				"Ready False NotReady", "Accepted True Accepted", "Programmed True Programmed",
				"Enforced False ReplicasTooOld", "Reconciling True ReplicasTooOld",
			},
			event: eventContent{"Warning", "ReplicasTooOld", "At least one live replica belongs to an earlier release that cannot read this generation."},
		},
		"it does not compile": {
			problems: invalid,
			rollout:  with(func(r *plan.Rollout) { r.Record = earlier }),
			want: []string{
				"Ready False NotReady", "Accepted False InvalidSpec", "Programmed False NotAccepted", "Enforced False NotProgrammed",
				"Stalled True InvalidSpec",
			},
			event: eventContent{"Warning", "InvalidSpec", "spec.limits: Invalid value: 1: cannot be"},
		},
		"it does not compile while Redis does not answer": {
			problems: invalid,
			rollout:  with(func(r *plan.Rollout) { r.Reachable = false }),
			want: []string{
				"Ready False NotReady", "Accepted False InvalidSpec", "Programmed False NotAccepted", "Enforced False NotProgrammed",
				"Stalled True InvalidSpec",
			},
			event: eventContent{"Warning", "InvalidSpec", "spec.limits: Invalid value: 1: cannot be"},
		},
		"it needs an unsupported feature": {
			problems: unsupported,
			want: []string{
				"Ready False NotReady", "Accepted False NotSupported", "Programmed False NotAccepted", "Enforced False NotProgrammed",
				"Stalled True NotSupported",
			},
			event: eventContent{"Warning", "NotSupported", `spec.limits: Unsupported value: 1: supported values: "2"`},
		},
		"it needs an unsupported feature and is invalid": {
			problems: append(unsupported, invalid...),
			want: []string{
				"Ready False NotReady", "Accepted False InvalidSpec", "Programmed False NotAccepted", "Enforced False NotProgrammed",
				"Stalled True InvalidSpec",
			},
			event: eventContent{"Warning", "InvalidSpec", `spec.limits: Unsupported value: 1: supported values: "2"; ` +
				"spec.limits: Invalid value: 1: cannot be"},
		},
		"it is not permitted and is invalid": {
			problems: append(invalid, forbidden...),
			want: []string{
				"Ready False NotReady", "Accepted False MatchNotPermitted", "Programmed False NotAccepted",
				"Enforced False NotProgrammed", "Stalled True MatchNotPermitted",
			},
			event: eventContent{
				"Warning", "MatchNotPermitted",
				"spec.limits: Invalid value: 1: cannot be; spec.limits: Forbidden: not granted",
			},
		},
		"a target is missing": {
			rollout:    enforced,
			resolution: resolution{status: metav1.ConditionUnknown, message: "no route"},
			want: []string{
				"Ready Unknown TargetNotFound", "Accepted True Accepted", "Programmed True Programmed", "Enforced True Enforced",
				"Reconciling True TargetNotFound", "ResolvedRefs Unknown TargetNotFound",
			},
		},
		"a target of a policy that was Ready is missing": {
			rollout:    enforced,
			resolution: resolution{status: metav1.ConditionUnknown, message: "no route", wasReady: true},
			want: []string{
				"Ready True Ready", "Accepted True Accepted", "Programmed True Programmed", "Enforced True Enforced",
				"ResolvedRefs Unknown TargetNotFound",
			},
			event: eventContent{"Normal", "Ready", "Every live replica enforces this generation."},
		},
		"a target stays missing": {
			rollout:    enforced,
			resolution: resolution{status: metav1.ConditionFalse, message: "no route"},
			want: []string{
				"Ready False TargetNotFound", "Accepted True Accepted", "Programmed True Programmed", "Enforced True Enforced",
				"Stalled True TargetNotFound", "ResolvedRefs False TargetNotFound",
			},
			event: eventContent{"Warning", "TargetNotFound", "no route"},
		},
		"a target stays missing, and a replica is behind": {
			rollout:    with(func(r *plan.Rollout) { r.AllReplicasCurrent = false }),
			resolution: resolution{status: metav1.ConditionFalse, message: "no route"},
			want: []string{
				"Ready False NotReady", "Accepted True Accepted", "Programmed True Programmed", "Enforced False ReplicasBehind",
				"Stalled True TargetNotFound", "ResolvedRefs False TargetNotFound",
			},
			event: eventContent{"Warning", "TargetNotFound", "no route"},
		},
		"a target is missing, and it does not compile": {
			problems:   invalid,
			rollout:    with(func(r *plan.Rollout) { r.Record = earlier }),
			resolution: resolution{status: metav1.ConditionFalse, message: "no route"},
			want: []string{
				"Ready False NotReady", "Accepted False InvalidSpec", "Programmed False NotAccepted", "Enforced False NotProgrammed",
				"Stalled True InvalidSpec", "ResolvedRefs False TargetNotFound",
			},
			event: eventContent{"Warning", "InvalidSpec", "spec.limits: Invalid value: 1: cannot be"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := facts{uid: "u", generation: 3, judgement: judgement{problems: tc.problems}, rollout: tc.rollout, resolution: tc.resolution}
			conditions := f.allConditions()
			g.Expect(describe(conditions)).To(Equal(tc.want))
			for _, c := range conditions {
				g.Expect(c.ObservedGeneration).To(Equal(int64(3)))
				g.Expect(c.Message).NotTo(BeEmpty())
				g.Expect(len(c.Message)).To(BeNumerically("<=", maxMessageBytes))
			}
			g.Expect(eventOf(conditions)).To(Equal(tc.event))
		})
	}
}

func describe(conditions []metav1.Condition) []string {
	lines := make([]string, 0, len(conditions))
	for _, c := range conditions {
		lines = append(lines, c.Type+" "+string(c.Status)+" "+c.Reason)
	}
	return lines
}

func TestProgrammedReportsWhichPlanStays(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	invalid := field.ErrorList{field.Invalid(field.NewPath("spec"), 1, "")}
	forbidden := field.ErrorList{field.Forbidden(field.NewPath("spec"), "")}
	message := func(problems field.ErrorList, last plan.Record) string {
		f := facts{judgement: judgement{problems: problems}, rollout: plan.Rollout{Reachable: true, Record: last}}
		return f.programmed().Message
	}
	last := &plan.Plan{Generation: 2}
	g.Expect(message(invalid, last)).To(Equal("The policy is not accepted. The plan of generation 2 stays enforced."))
	g.Expect(message(forbidden, last)).To(Equal("The policy is not accepted. Its plan is being withdrawn."))
	g.Expect(message(invalid, nil)).To(Equal("The policy is not accepted and has no plan in the registry."))
}

func TestReadyNamesTheFirstUnmetCondition(t *testing.T) {
	t.Parallel()
	f := facts{rollout: plan.Rollout{Reachable: true, Record: &plan.Plan{}}}
	NewWithT(t).Expect(f.allConditions()[0].Message).To(
		Equal("NoReplicas: No replica is alive, so no request is decided."))
}

// Only a change of status is a eventContent, not a change of reason or message.
func TestTransitionTimesAreKept(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	then := metav1.NewTime(time.Unix(1_600_000_000, 0))
	kept := condition("Kept", metav1.ConditionFalse, "Old", "old")
	turned := condition("Turned", metav1.ConditionFalse, "Old", "old")
	gone := condition("Gone", metav1.ConditionTrue, "Old", "old")
	for _, c := range []*metav1.Condition{&kept, &turned, &gone} {
		c.LastTransitionTime = then
	}

	merged := keepTransitionTimes([]metav1.Condition{gone, turned, kept}, []metav1.Condition{
		condition("Kept", metav1.ConditionFalse, "New", "new"),
		condition("Turned", metav1.ConditionTrue, "New", "new"),
	})
	g.Expect(describe(merged)).To(Equal([]string{"Kept False New", "Turned True New"}))
	g.Expect(merged[0].LastTransitionTime).To(Equal(then))
	g.Expect(merged[1].LastTransitionTime.After(then.Time)).To(BeTrue())
}
