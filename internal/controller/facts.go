// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
)

// maxMessageBytes keeps condition messages short enough for an event.
const maxMessageBytes = 1000

// facts are the newest observations of an object. The conditions are computed from them alone. Two read
// back an earlier status: Wired, because sightings expire and silence must not change it, and ResolvedRefs, whose time
// the next leader continues.
type facts struct {
	kind       plan.Kind
	uid        types.UID
	generation int64
	judgement
	rollout plan.Rollout

	// Of policies.

	requestedAt string    // see requestedAt
	mode        plan.Mode // of the plan, "" without one
	shadow      compile.Shadow
	wiring      wiring
	resolution  resolution
}

// judgement is what compiling an object found.
type judgement struct {
	problems   field.ErrorList    // why the object has no record
	warnings   []string           // of the object alone
	reason     string             // of Accepted for the problems; "" follows from them
	waits      bool               // for a change of another object, which solves the problems: Reconciling, not Stalled
	withdraws  bool               // the problems remove the last record, which otherwise stays
	ended      bool               // the object has ended, so it has no record and no problems
	conditions []metav1.Condition // of the kind alone
}

// words name an object and its record in messages.
type words struct{ object, record, accepted string }

var wordsOf = map[plan.Kind]words{
	plan.KindPlan:      {"policy", "plan", "The policy compiles."},
	plan.KindKeyGroup:  {"key group", "list of keys", "The key group is valid."},
	plan.KindException: {"exception", "record", "The policy accepts the exception."},
}

func (f *facts) words() words { return wordsOf[cmp.Or(f.kind, plan.KindPlan)] }

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
	case f.ended:
		return settled // the publisher removes the record, whenever it can
	case !f.rollout.Reachable:
		return noRegistry
	case f.rollout.OwnedElsewhere:
		return otherRegistry
	case f.isWithdrawn() && f.rollout.Record != nil:
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

// isWithdrawn reports whether the problems remove the last record.
func (f *facts) isWithdrawn() bool {
	return len(f.problems) > 0 && (f.withdraws || f.notAcceptedReason() == v1alpha1.ReasonMatchNotPermitted)
}

// isAccepted reports whether the object compiles and has room in its budgets.
func (f *facts) isAccepted() bool {
	return len(f.problems) == 0 && (f.ended || f.rollout.OverBudget == nil)
}

// last returns the generation of the record in the registry. It is false without one of this object.
func (f *facts) last() (generation int64, ok bool) {
	if f.rollout.Record == nil {
		return 0, false
	}
	uid, generation := f.rollout.Record.Source()
	return generation, uid == string(f.uid)
}

// staysEnforced reports whether the replicas enforce an earlier generation, because this one is not
// accepted.
func (f *facts) staysEnforced() bool {
	_, own := f.last()
	return !f.isAccepted() && f.phase() != withdrawing && own
}

// isProgrammed reports whether the registry holds the record of this generation, a plan in the mode that
// ShadowUntilAnnotation demands.
func (f *facts) isProgrammed() bool {
	generation, own := f.last()
	held := f.rollout.Plan()
	return own && generation == f.generation && (held == nil || held.Mode == f.mode)
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

// reportedBy returns what the status of the object reports.
func reportedBy(object client.Object, status *earlierStatus) reported {
	was := reported{uid: object.GetUID(), generation: status.observedGeneration}
	if requestedAt(object) != "" {
		was.requestedAt = status.requestedAt
	}
	if c := meta.FindStatusCondition(status.conditions, v1alpha1.ConditionAccepted); c != nil {
		was.accepted = c.Reason
	}
	return was
}

// keepTransitionTimes sets the times of the last transitions, of conditions without one: the time of the old
// condition if the status is the same, now otherwise.
func keepTransitionTimes(old, conditions []metav1.Condition) []metav1.Condition {
	merged := make([]metav1.Condition, 0, len(conditions))
	for _, c := range conditions {
		if before := meta.FindStatusCondition(old, c.Type); before != nil && c.LastTransitionTime.IsZero() {
			merged = append(merged, *before)
		}
		meta.SetStatusCondition(&merged, c)
	}
	return merged
}

// exceptWarnings returns the conditions without Warnings, whose change alone waits for the next write.
func exceptWarnings(conditions []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionWarnings })
}

// allConditions returns every condition that follows from the facts, but Wired.
func (f *facts) allConditions() []metav1.Condition {
	needed := f.needed()
	accepted, programmed, enforced := needed[0], needed[1], needed[2]
	ready := f.summarize(needed...)
	if until := f.shadow.Until; ready.Status == metav1.ConditionTrue && !until.IsZero() {
		ready.Message = fmt.Sprintf("The policy is accepted, programmed and enforced in Shadow until %s: it denies no request.",
			until.UTC().Format(time.RFC3339))
	}
	if f.ended {
		ready.Message = fmt.Sprintf("The %s has ended.", f.words().object)
	}
	conditions := []metav1.Condition{ready, accepted, programmed, enforced}
	// kstatus: an object that only its author can repair is Stalled, any other that is
	// not ready is Reconciling.
	resolved := f.resolution.condition()
	conditionType, cause := v1alpha1.ConditionReconciling, firstUnmet(needed...)
	if accepted.Status != metav1.ConditionTrue && !f.waits {
		conditionType, cause = v1alpha1.ConditionStalled, &accepted
	} else if resolved != nil && resolved.Status == metav1.ConditionFalse {
		conditionType, cause = v1alpha1.ConditionStalled, resolved
	}
	if cause != nil {
		conditions = append(conditions, condition(conditionType, metav1.ConditionTrue, cause.Reason, cause.Message))
	}
	if resolved != nil {
		conditions = append(conditions, *resolved)
	}
	if len(f.warnings) > 0 {
		conditions = append(conditions, condition(v1alpha1.ConditionWarnings, metav1.ConditionTrue, v1alpha1.ReasonProbableMistake,
			message.Truncate(strings.Join(f.warnings, "; "), maxMessageBytes)))
	}
	conditions = append(conditions, f.conditions...)
	for i := range conditions {
		conditions[i].ObservedGeneration = f.generation
	}
	return conditions
}

// needed returns Accepted, Programmed and Enforced, then ResolvedRefs if it counts: all must be true for Ready.
func (f *facts) needed() []metav1.Condition {
	programmed := f.programmed()
	needed := []metav1.Condition{f.accepted(), programmed, f.enforced(programmed.Status)}
	if f.resolution.isUnmet() {
		needed = append(needed, *f.resolution.condition())
	}
	return needed
}

// unmet returns the reason of the first condition that is not True, or "".
func (f *facts) unmet() string {
	if c := firstUnmet(f.needed()...); c != nil {
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
		return is(metav1.ConditionFalse, f.notAcceptedReason(), joinProblems(f.problems))
	case f.ended:
		return is(metav1.ConditionTrue, v1alpha1.ReasonExpired, fmt.Sprintf("The %s has ended, so it is not judged.", f.words().object))
	case f.rollout.OverBudget != nil:
		return is(metav1.ConditionFalse, v1alpha1.ReasonOverBudget, f.rollout.OverBudget.String()+".")
	default:
		return is(metav1.ConditionTrue, v1alpha1.ReasonAccepted, f.words().accepted)
	}
}

func (f *facts) programmed() metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionProgrammed, status, reason, fmt.Sprintf(format, args...))
	}
	w, none := f.words(), f.rollout.Record == nil
	switch {
	case f.ended:
		return is(metav1.ConditionTrue, v1alpha1.ReasonExpired, "The %s has ended, so it needs no %s in the registry.", w.object, w.record)
	case !f.isAccepted() && none && !f.rollout.Reachable:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotAccepted,
			"The %s is not accepted. Redis does not answer, so it is unknown whether an earlier %s stays enforced.", w.object, w.record)
	case !f.isAccepted() && none:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotAccepted,
			"The %s is not accepted and has no %s in the registry.", w.object, w.record)
	case f.isWithdrawn():
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotAccepted,
			"The %s is not accepted. Its %s is being withdrawn.", w.object, w.record)
	case !f.isAccepted():
		_, generation := f.rollout.Record.Source()
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotAccepted,
			"The %s is not accepted. The %s of generation %d stays enforced.", w.object, w.record, generation)
	case !f.rollout.Reachable:
		return is(metav1.ConditionUnknown, v1alpha1.ReasonRegistryUnreachable,
			"Redis does not answer, so the content of the registry is unknown.")
	case f.rollout.OwnedElsewhere:
		return is(metav1.ConditionFalse, v1alpha1.ReasonRegistryOwnedElsewhere,
			"Another installation, or a copy of this one, owns the registry. Nothing is written to it.")
	case !f.isProgrammed():
		return is(metav1.ConditionFalse, v1alpha1.ReasonPublishing,
			"The %s of this generation is being written to the registry.", w.record)
	default:
		return is(metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "The %s of this generation is in the registry.", w.record)
	}
}

func (f *facts) enforced(programmed metav1.ConditionStatus) metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionEnforced, status, reason, fmt.Sprintf(format, args...))
	}
	w := f.words()
	switch {
	case f.ended:
		return is(metav1.ConditionTrue, v1alpha1.ReasonExpired, "No replica applies the %s, because it has ended.", w.object)
	case programmed == metav1.ConditionUnknown:
		return is(metav1.ConditionUnknown, v1alpha1.ReasonRegistryUnreachable,
			"Redis does not answer, so the generation that the replicas enforce is unknown.")
	case programmed == metav1.ConditionFalse && f.staysEnforced():
		generation, _ := f.last()
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotProgrammed,
			"This generation has no %s. The replicas enforce the %s of generation %d.", w.record, w.record, generation)
	case programmed == metav1.ConditionFalse:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotProgrammed,
			"The %s of this generation is not in the registry, so no replica can enforce it.", w.record)
	case !f.rollout.HasReplicas:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNoReplicas, "No replica is alive, so no request is decided.")
	case f.rollout.ReplicasTooOld:
		return is(metav1.ConditionFalse, v1alpha1.ReasonReplicasTooOld,
			"At least one live replica belongs to an earlier release that cannot read this generation.")
	case !f.rollout.AllReplicasCurrent:
		return is(metav1.ConditionFalse, v1alpha1.ReasonReplicasBehind,
			"At least one live replica has not loaded the %s of this generation.", w.record)
	default:
		return is(metav1.ConditionTrue, v1alpha1.ReasonEnforced, "Every live replica enforces this generation.")
	}
}

// summarize returns the condition Ready: False if any of the conditions is False,
// else Unknown if any is Unknown. Its message is the message of the first unmet condition, as is the reason if
// only ResolvedRefs is unmet.
func (f *facts) summarize(conditions ...metav1.Condition) metav1.Condition {
	cause := firstUnmet(conditions...)
	if cause == nil {
		return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady,
			fmt.Sprintf("The %s is accepted, programmed and enforced.", f.words().object))
	}
	status, reason := metav1.ConditionUnknown, v1alpha1.ReasonPending
	for _, c := range conditions {
		if c.Status == metav1.ConditionFalse {
			status, reason = metav1.ConditionFalse, v1alpha1.ReasonNotReady
		}
	}
	if cause.Type == v1alpha1.ConditionResolvedRefs {
		reason = cause.Reason
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

// notAcceptedReason returns the reason of the condition Accepted for the problems.
func (f *facts) notAcceptedReason() string { return cmp.Or(f.reason, notAcceptedReason(f.problems)) }

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
