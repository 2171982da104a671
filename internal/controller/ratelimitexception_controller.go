// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// exceptionKind returns the kind of RateLimitExceptions.
func exceptionKind() *recordKind {
	return &recordKind{
		kind: kind{
			record: plan.KindException, name: "RateLimitException", plural: "exceptions",
			newObject: func() client.Object { return &v1alpha1.RateLimitException{} },
			newList:   func() client.ObjectList { return &v1alpha1.RateLimitExceptionList{} },
			status:    exceptionStatus,
		},
		compile: func(ctx context.Context, r *Reconciler, object client.Object) (*compiledRecord, error) {
			return r.compileException(ctx, object.(*v1alpha1.RateLimitException)) //nolint:forcetypeassert // of newObject
		},
		watch: func(r *Reconciler, b *builder.Builder) *builder.Builder {
			return b.
				Watches(&v1alpha1.RateLimitPolicy{}, handler.EnqueueRequestsFromMapFunc(r.exceptionsOfPolicy),
					builder.WithPredicates(specChanged(), r.whileLeading(noneMissed))).
				Watches(&v1alpha1.RateLimitException{}, r.exceptionsBeside())
		},
	}
}

// compileException judges the exception by its policy. An exception that has ended is not judged: it has no record.
func (r *Reconciler) compileException(ctx context.Context, e *v1alpha1.RateLimitException) (*compiledRecord, error) {
	now := r.redisTime()
	if !now.Before(e.Spec.Until.Time) {
		return &compiledRecord{judgement: judgement{ended: true, conditions: []metav1.Condition{condition(v1alpha1.ConditionActive,
			metav1.ConditionFalse, v1alpha1.ReasonExpired, "The exception ended at "+untilText(e)+".")}}}, nil
	}
	compiled := &compiledRecord{again: r.localTime(e.Spec.Until.Time)}
	compiled.conditions = []metav1.Condition{condition(v1alpha1.ConditionActive,
		metav1.ConditionTrue, v1alpha1.ReasonActive, "The exception ends at "+untilText(e)+".")}
	policy := &v1alpha1.RateLimitPolicy{}
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Policy}
	err := r.client.Get(ctx, name, policy, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		compiled.problems = field.ErrorList{field.NotFound(field.NewPath("spec", "policy"), e.Spec.Policy)}
		compiled.reason, compiled.waits, compiled.withdraws = v1alpha1.ReasonPolicyNotFound, true, true
		return compiled, nil
	} else if err != nil {
		return nil, err
	}
	// What the Namespace may match does not matter to exceptions.
	of := r.judging.of(policy, compile.Everything(), time.Now()) //nolint:forbidigo // plans depend on the date
	if of.plan == nil {
		compiled.problems = field.ErrorList{field.Invalid(field.NewPath("spec", "policy"), e.Spec.Policy,
			"the policy is not accepted, so the exception cannot be judged: "+joinProblems(of.problems))}
		compiled.reason, compiled.waits = v1alpha1.ReasonPolicyNotAccepted, true
		return compiled, nil
	}
	record, problems := compile.Exception(e, policy, of.plan, now)
	if len(problems) > 0 {
		compiled.problems, compiled.withdraws = problems, notAcceptedReason(problems) != v1alpha1.ReasonNotSupported
		if slices.ContainsFunc(problems, func(p *field.Error) bool { return p.Type == field.ErrorTypeForbidden }) {
			compiled.reason = v1alpha1.ReasonNotPermitted
		}
		return compiled, nil
	}
	compiled.record = record
	warnings, untrue := r.exceptions.Warnings(record, policy, of.plan, now)
	compiled.warnings = warnings
	if end := r.localTime(untrue); !untrue.IsZero() && end.Before(compiled.again) {
		compiled.again = end
	}
	return compiled, nil
}

func untilText(e *v1alpha1.RateLimitException) string { return e.Spec.Until.UTC().Format(time.RFC3339) }

// redisTime returns the time by which exceptions end.
func (r *Reconciler) redisTime() time.Time {
	if r.RedisTime != nil {
		return r.RedisTime()
	}
	return time.Now() //nolint:forbidigo // the default
}

// localTime returns the time of the local clock at which Redis has the given time.
func (r *Reconciler) localTime(redis time.Time) time.Time {
	return time.Now().Add(redis.Sub(r.redisTime())) //nolint:forbidigo // the time to wait for
}

// exceptionsOfPolicy lists the exceptions that name the policy.
func (r *Reconciler) exceptionsOfPolicy(_ context.Context, policy client.Object) []reconcile.Request {
	return requestsFor(r.exceptions.NamesOf(client.ObjectKeyFromObject(policy)))
}

func requestsFor(names []types.NamespacedName) []reconcile.Request {
	requests := make([]reconcile.Request, len(names))
	for i := range names {
		requests[i].NamespacedName = names[i]
	}
	return requests
}

// exceptionsBeside keeps the index of exceptions up to date, also before a term, and queues in a term the exceptions whose
// warnings a change may affect.
func (r *Reconciler) exceptionsBeside() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	replace := func(q queue, was, is client.Object) {
		before, _ := was.(*v1alpha1.RateLimitException)
		after, _ := is.(*v1alpha1.RateLimitException)
		affected := r.exceptions.Replace(before, after)
		if _, leading := r.Terms.running(); leading {
			enqueueLowPriority(q, requestsFor(affected)...)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { replace(q, nil, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { replace(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { replace(q, e.Object, nil) },
	}
}

// exceptionStatus returns the status of the exception.
func exceptionStatus(object client.Object, f *facts) newStatus {
	e := object.(*v1alpha1.RateLimitException) //nolint:forcetypeassert // of newObject
	status := v1alpha1.RateLimitExceptionStatus{
		Conditions:         keepTransitionTimes(e.Status.Conditions, f.allConditions()),
		ObservedGeneration: f.generation,
	}
	return newStatus{&status, status.Conditions, !equality.Semantic.DeepEqual(&e.Status, &status)}
}
