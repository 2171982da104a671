// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
)

// maxMessageBytes keeps condition messages short enough for an event.
const maxMessageBytes = 1000

// facts are the newest observations of a policy. The conditions are computed from them alone. Only Wired reads
// back an earlier status: sightings expire, and silence must not change it.
type facts struct {
	uid         types.UID
	generation  int64
	requestedAt string          // see requestedAt
	problems    field.ErrorList // why the policy has no plan
	mode        plan.Mode       // of the plan, "" without one
	shadow      compile.Shadow
	warnings    []string // of the policy alone
	wiring      wiring
	rollout     plan.Rollout
}

// phase is what facts that have not settled wait for.
type phase string

const (
	settled        phase = "" // only an edit or another change from outside follows
	publishing     phase = "publishing"
	withdrawing    phase = "withdrawing"
	noRegistry     phase = "registry unreachable"
	otherRegistry  phase = "registry owned elsewhere"
	noReplicas     phase = "no replicas"
	replicasTooOld phase = "replicas too old"
	replicasBehind phase = "replicas behind"
)

func (f *facts) phase() phase {
	switch {
	case !f.rollout.Reachable:
		return noRegistry
	case f.rollout.OwnedElsewhere:
		return otherRegistry
	case len(f.problems) > 0 && f.rollout.Plan() != nil && notAcceptedReason(f.problems) == v1alpha1.ReasonMatchNotPermitted:
		return withdrawing
	case !f.isAccepted():
		return settled
	case !f.isProgrammed():
		return publishing
	case !f.rollout.HasReplicas:
		return noReplicas
	case f.rollout.ReplicasTooOld:
		return replicasTooOld
	case !f.rollout.AllReplicasCurrent:
		return replicasBehind
	default:
		return settled
	}
}

// isAccepted reports whether the policy compiles and has room in its budgets.
func (f *facts) isAccepted() bool { return len(f.problems) == 0 && f.rollout.OverBudget == nil }

// staysEnforced reports whether the replicas enforce an earlier generation, because this one is not
// accepted.
func (f *facts) staysEnforced() bool {
	return !f.isAccepted() && f.phase() != withdrawing && f.rollout.Plan() != nil && f.rollout.Plan().UID == string(f.uid)
}

// isProgrammed reports whether the registry holds the plan of this generation, in the mode that
// ShadowUntilAnnotation demands.
func (f *facts) isProgrammed() bool {
	held := f.rollout.Plan()
	return held != nil && held.UID == string(f.uid) && held.Generation == f.generation && held.Mode == f.mode
}

// reported identifies what a status reports: a change of it is the work of a user.
type reported struct {
	uid         types.UID
	generation  int64
	requestedAt string
	accepted    string // reason of the condition Accepted
}

// key returns what a status with these facts reports.
func (f *facts) key() reported {
	return reported{uid: f.uid, generation: f.generation, requestedAt: f.requestedAt, accepted: f.accepted().Reason}
}

// reportedBy returns what the status of the policy reports.
func reportedBy(policy *v1alpha1.RateLimitPolicy) reported {
	was := reported{uid: policy.UID, generation: policy.Status.ObservedGeneration}
	if requestedAt(policy) != "" {
		was.requestedAt = policy.Status.LastHandledReconcileAt
	}
	if c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionAccepted); c != nil {
		was.accepted = c.Reason
	}
	return was
}

// status returns the status that follows from the facts. A request that was withdrawn stays
// handled.
func (f *facts) status(policy *v1alpha1.RateLimitPolicy) v1alpha1.RateLimitPolicyStatus {
	inForce := f.inForce(policy.Status.EnforcedGeneration)
	conditions := f.conditions()
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

// keepTransitionTimes sets the times of the last transitions: the time of the old
// condition if the status is the same, now otherwise.
func keepTransitionTimes(old, conditions []metav1.Condition) []metav1.Condition {
	merged := make([]metav1.Condition, 0, len(conditions))
	for _, c := range conditions {
		if before := meta.FindStatusCondition(old, c.Type); before != nil {
			merged = append(merged, *before)
		}
		meta.SetStatusCondition(&merged, c)
	}
	return merged
}

// conditions returns every condition that follows from the facts.
func (f *facts) conditions() []metav1.Condition {
	accepted, programmed := f.accepted(), f.programmed()
	enforced := f.enforced(programmed.Status)
	ready := summarize(accepted, programmed, enforced)
	if until := f.shadow.Until; ready.Status == metav1.ConditionTrue && !until.IsZero() {
		ready.Message = fmt.Sprintf("The policy is accepted, programmed and enforced in Shadow until %s: it denies no request.",
			until.UTC().Format(time.RFC3339))
	}
	conditions := []metav1.Condition{ready, accepted, programmed, enforced}
	// kstatus: a policy that only its author can repair is Stalled, any other that is
	// not ready is Reconciling.
	if accepted.Status != metav1.ConditionTrue {
		conditions = append(conditions,
			condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, accepted.Reason, accepted.Message))
	} else if cause := firstUnmet(programmed, enforced); cause != nil {
		conditions = append(conditions,
			condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, cause.Reason, cause.Message))
	}
	if len(f.warnings) > 0 {
		conditions = append(conditions, condition(v1alpha1.ConditionWarnings, metav1.ConditionTrue, v1alpha1.ReasonProbableMistake,
			message.Truncate(strings.Join(f.warnings, "; "), maxMessageBytes)))
	}
	for i := range conditions {
		conditions[i].ObservedGeneration = f.generation
	}
	return conditions
}

// unmet returns the reason of the first condition that is not True, or "".
func (f *facts) unmet() string {
	accepted, programmed := f.accepted(), f.programmed()
	if c := firstUnmet(accepted, programmed, f.enforced(programmed.Status)); c != nil {
		return c.Reason
	}
	return ""
}

func (f *facts) accepted() metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionAccepted, status, reason, message)
	}
	switch {
	case len(f.problems) > 0:
		return is(metav1.ConditionFalse, notAcceptedReason(f.problems), joinProblems(f.problems))
	case f.rollout.OverBudget != nil:
		return is(metav1.ConditionFalse, v1alpha1.ReasonOverBudget, f.rollout.OverBudget.String()+".")
	default:
		return is(metav1.ConditionTrue, v1alpha1.ReasonAccepted, "The policy compiles.")
	}
}

func (f *facts) programmed() metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionProgrammed, status, reason, message)
	}
	last := f.rollout.Plan()
	switch {
	case !f.isAccepted() && last == nil && !f.rollout.Reachable:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotAccepted,
			"The policy is not accepted. Redis does not answer, so it is unknown whether an earlier plan stays enforced.")
	case !f.isAccepted() && last == nil:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotAccepted,
			"The policy is not accepted and has no plan in the registry.")
	case len(f.problems) > 0 && notAcceptedReason(f.problems) == v1alpha1.ReasonMatchNotPermitted:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotAccepted,
			"The policy is not accepted. Its plan is being withdrawn.")
	case !f.isAccepted():
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotAccepted,
			fmt.Sprintf("The policy is not accepted. The plan of generation %d stays enforced.", last.Generation))
	case !f.rollout.Reachable:
		return is(metav1.ConditionUnknown, v1alpha1.ReasonRegistryUnreachable,
			"Redis does not answer, so the content of the registry is unknown.")
	case f.rollout.OwnedElsewhere:
		return is(metav1.ConditionFalse, v1alpha1.ReasonRegistryOwnedElsewhere,
			"Another installation, or a copy of this one, owns the registry. Nothing is written to it.")
	case !f.isProgrammed():
		return is(metav1.ConditionFalse, v1alpha1.ReasonPublishing,
			"The plan of this generation is being written to the registry.")
	default:
		return is(metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "The plan of this generation is in the registry.")
	}
}

func (f *facts) enforced(programmed metav1.ConditionStatus) metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionEnforced, status, reason, message)
	}
	switch {
	case programmed == metav1.ConditionUnknown:
		return is(metav1.ConditionUnknown, v1alpha1.ReasonRegistryUnreachable,
			"Redis does not answer, so the generation that the replicas enforce is unknown.")
	case programmed == metav1.ConditionFalse && f.staysEnforced():
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotProgrammed,
			fmt.Sprintf("This generation has no plan. The replicas enforce the plan of generation %d.", f.rollout.Plan().Generation))
	case programmed == metav1.ConditionFalse:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotProgrammed,
			"The plan of this generation is not in the registry, so no replica can enforce it.")
	case !f.rollout.HasReplicas:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNoReplicas, "No replica is alive, so no request is decided.")
	case f.rollout.ReplicasTooOld:
		return is(metav1.ConditionFalse, v1alpha1.ReasonReplicasTooOld,
			"At least one live replica belongs to an earlier release that cannot express this generation.")
	case !f.rollout.AllReplicasCurrent:
		return is(metav1.ConditionFalse, v1alpha1.ReasonReplicasBehind,
			"At least one live replica has not loaded the plan of this generation.")
	default:
		return is(metav1.ConditionTrue, v1alpha1.ReasonEnforced, "Every live replica enforces this generation.")
	}
}

// summarize returns the condition Ready: False if any of the conditions is False,
// else Unknown if any is Unknown. Its message is the message of the first unmet condition.
func summarize(conditions ...metav1.Condition) metav1.Condition {
	cause := firstUnmet(conditions...)
	if cause == nil {
		return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady,
			"The policy is accepted, programmed and enforced.")
	}
	status, reason := metav1.ConditionUnknown, v1alpha1.ReasonPending
	for _, c := range conditions {
		if c.Status == metav1.ConditionFalse {
			status, reason = metav1.ConditionFalse, v1alpha1.ReasonNotReady
		}
	}
	return condition(v1alpha1.ConditionReady, status, reason, message.Truncate(cause.Reason+": "+cause.Message, maxMessageBytes))
}

// firstUnmet returns the first condition that is not true, or nil.
func firstUnmet(conditions ...metav1.Condition) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Status != metav1.ConditionTrue {
			return &conditions[i]
		}
	}
	return nil
}

// notAcceptedReason returns the reason of the condition Accepted for these problems.
// MatchNotPermitted takes precedence, since it removes the plan.
func notAcceptedReason(problems field.ErrorList) string {
	reason := v1alpha1.ReasonNotSupported
	for _, p := range problems {
		switch p.Type {
		case field.ErrorTypeForbidden:
			return v1alpha1.ReasonMatchNotPermitted
		case field.ErrorTypeNotSupported:
		default:
			reason = v1alpha1.ReasonInvalidSpec
		}
	}
	return reason
}

// joinProblems returns all problems as one message, in the order of the fields.
func joinProblems(problems field.ErrorList) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return message.Truncate(strings.Join(texts, "; "), maxMessageBytes)
}

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}
