// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// recordKind is a kind whose controller compiles each object to a record.
type recordKind struct {
	kind

	// compile returns the record of the object, which must not be changed, or its problems. An error is retried.
	compile func(context.Context, *Reconciler, client.Object) (*compiledRecord, error)
	// watch adds further watches; nil adds none.
	watch func(*Reconciler, *builder.Builder) *builder.Builder
}

// compiledRecord is the result of compiling an object.
type compiledRecord struct {
	judgement

	record    plan.Record             // nil if there are problems
	dropsLast bool                    // the last record must not stay
	complete  func(f, earlier *facts) // adds the facts of a policy; nil for other kinds
	again     time.Time               // when the object is to be compiled again without a change; zero is never
}

// setupRecords adds the controller of the kind to the manager.
func (r *Reconciler) setupRecords(mgr ctrl.Manager, k *recordKind) error {
	b := ctrl.NewControllerManagedBy(mgr).
		For(k.newObject(), builder.WithPredicates(specChanged(), r.whileLeading(k.pass.misses))).
		WatchesRawSource(source.Func(k.start)).
		WithOptions(options())
	if k.watch != nil {
		b = k.watch(r, b)
	}
	return b.Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		return r.whileTermRuns(ctx, func(ctx context.Context, t term) (time.Time, error) {
			if request == sweep {
				return time.Time{}, ignoreIfReported(r.Publisher.Sweep(ctx, r.sourceExists), r.Publisher.Rollout(""))
			}
			return r.reconcileRecord(ctx, t, k, request.NamespacedName)
		})
	}))
}

// reconcileRecord publishes the record of one object. It returns when the object is to be compiled again without a
// change; zero is never.
func (r *Reconciler) reconcileRecord(ctx context.Context, t term, k *recordKind, name types.NamespacedName) (again time.Time, err error) {
	object := k.newObject()
	if err := r.client.Get(ctx, name, object, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return again, r.remove(ctx, t, &k.kind, name)
	} else if err != nil {
		return again, err
	}
	compiled, err := k.compile(ctx, r, object)
	if err != nil {
		return again, err
	}
	publishErr := r.publishRecord(ctx, k, object, compiled)
	k.statuses.observe(t, object, earlierOf(object), r.isEdited(t, &k.kind, object), compiled)
	r.markProcessed(ctx, t, &k.kind, name)
	return compiled.again, ignoreIfReported(publishErr, r.Publisher.Rollout(""))
}

// publishRecord hands the record to the publisher. An object with problems keeps its last record, unless they remove it
// or it belongs to an earlier object of that name.
func (r *Reconciler) publishRecord(ctx context.Context, k *recordKind, object client.Object, compiled *compiledRecord) error {
	id := k.id(client.ObjectKeyFromObject(object))
	dropsLast := compiled.dropsLast
	if last := r.Publisher.Rollout(id).Record; last != nil {
		uid, _ := last.Source()
		dropsLast = dropsLast || uid != string(object.GetUID())
	}
	switch {
	case compiled.ended:
		return r.withdraw(ctx, id)
	case len(compiled.problems) == 0:
		return r.set(ctx, &k.kind, object, compiled.record, dropsLast)
	case compiled.withdraws, dropsLast:
		return r.withdraw(ctx, id)
	default:
		return nil
	}
}
