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
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/warning"
)

// exceptionKind returns the kind of RateLimitExceptions.
func exceptionKind() *recordKind {
	return &recordKind{
		kind: kind{
			record: plan.KindException, name: "RateLimitException", plural: "exceptions",
			newObject: func() client.Object { return &v1alpha1.RateLimitException{} },
			newList:   func() client.ObjectList { return &v1alpha1.RateLimitExceptionList{} },
			earlier: func(object client.Object) earlierStatus {
				status := &object.(*v1alpha1.RateLimitException).Status //nolint:forcetypeassert // of newObject
				return earlierStatus{conditions: status.Conditions, observedGeneration: status.ObservedGeneration}
			},
			status: exceptionStatus,
		},
		compile: func(ctx context.Context, r *Reconciler, object client.Object) (*compiledRecord, error) {
			return r.compileException(ctx, object.(*v1alpha1.RateLimitException)) //nolint:forcetypeassert // of newObject
		},
		watch: func(r *Reconciler, b *builder.Builder) *builder.Builder {
			return b.
				Watches(&v1alpha1.RateLimitPolicy{}, handler.EnqueueRequestsFromMapFunc(r.exceptionsOfPolicy),
					builder.WithPredicates(specChanged(), r.whileLeading(noneMissed))).
				Watches(&v1alpha1.RateLimitException{}, handler.EnqueueRequestsFromMapFunc(r.exceptionsBeside),
					builder.WithPredicates(specChanged(), r.whileLeading(noneMissed)))
		},
	}
}

// compileException judges the exception by its policy. An exception that has ended is not judged: it has no record.
func (r *Reconciler) compileException(ctx context.Context, e *v1alpha1.RateLimitException) (*compiledRecord, error) {
	now := r.redisTime()
	if !now.Before(e.Spec.Until.Time) {
		return &compiledRecord{ended: true, conditions: []metav1.Condition{condition(v1alpha1.ConditionActive, metav1.ConditionFalse,
			v1alpha1.ReasonExpired, "The exception ended at "+untilText(e)+".")}}, nil
	}
	compiled := &compiledRecord{again: r.localTime(e.Spec.Until.Time), conditions: []metav1.Condition{condition(v1alpha1.ConditionActive,
		metav1.ConditionTrue, v1alpha1.ReasonActive, "The exception ends at "+untilText(e)+".")}}
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
		compiled.problems, compiled.withdraws = problems, true
		if slices.ContainsFunc(problems, func(p *field.Error) bool { return p.Type == field.ErrorTypeForbidden }) {
			compiled.reason = v1alpha1.ReasonNotPermitted
		}
		return compiled, nil
	}
	compiled.record = record
	all := &v1alpha1.RateLimitExceptionList{}
	if err := r.client.List(ctx, all, client.InNamespace(e.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	beside := compile.ExceptionsFor(record.Key, policy, of.plan, all.Items, now)
	for _, other := range beside {
		if end := r.localTime(other.Until()); now.Before(other.Until()) && end.Before(compiled.again) {
			compiled.again = end // then the warning is no longer true
		}
	}
	compiled.warnings = warning.Exception(record, of.plan, beside, now)
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
func (r *Reconciler) exceptionsOfPolicy(ctx context.Context, policy client.Object) []reconcile.Request {
	return r.exceptionsWhere(ctx, policy.GetNamespace(), func(e *v1alpha1.RateLimitException) bool { return e.Spec.Policy == policy.GetName() })
}

// exceptionsBeside lists the other exceptions for the key of the exception, whose warnings depend on it.
func (r *Reconciler) exceptionsBeside(ctx context.Context, object client.Object) []reconcile.Request {
	changed := object.(*v1alpha1.RateLimitException) //nolint:forcetypeassert // of the watch
	return r.exceptionsWhere(ctx, changed.Namespace, func(e *v1alpha1.RateLimitException) bool {
		return e.Name != changed.Name && e.Spec.Policy == changed.Spec.Policy && slices.Equal(e.Spec.Key, changed.Spec.Key)
	})
}

func (r *Reconciler) exceptionsWhere(ctx context.Context, namespace string, holds func(*v1alpha1.RateLimitException) bool) (requests []reconcile.Request) {
	all := &v1alpha1.RateLimitExceptionList{}
	if err := r.client.List(ctx, all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Failed to list exceptions", "namespace", namespace)
	}
	for i := range all.Items {
		if holds(&all.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
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
