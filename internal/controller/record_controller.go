// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// recordKind is a kind of objects other than policies. Its controller compiles each of them to a record.
type recordKind struct {
	kind

	// compile returns the record of the object, or its problems. An error is retried.
	compile func(context.Context, *Reconciler, client.Object) (*compiledRecord, error)
	// watch adds further watches; nil adds none.
	watch func(*Reconciler, *builder.Builder) *builder.Builder
}

// compiledRecord is the result of compiling an object.
type compiledRecord struct {
	record   plan.Record     // nil if there are problems
	problems field.ErrorList // why the object is not accepted

	reason     string // of the condition Accepted for the problems; "" follows from them
	waits      bool   // for a change of another object, which solves the problems: Reconciling, not Stalled
	ended      bool   // the object has ended, so it has no record and no problems
	withdraws  bool   // the problems remove the last record, which otherwise stays
	warnings   []string
	conditions []metav1.Condition // of the kind alone
	again      time.Time          // when the object is to be compiled again without a change; zero is never
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
	k.statuses.observe(t, object, k.earlier(object), r.isEdited(t, &k.kind, object), func(facts) facts {
		return facts{
			problems: compiled.problems, warnings: compiled.warnings,
			reason: compiled.reason, waits: compiled.waits, withdraws: compiled.withdraws, ended: compiled.ended, conditions: compiled.conditions,
		}
	})
	r.markProcessed(ctx, t, &k.kind, name)
	return compiled.again, ignoreIfReported(publishErr, r.Publisher.Rollout(""))
}

// publishRecord hands the record to the publisher. An object with problems keeps its last record, unless they remove it
// or it belongs to an earlier object of that name.
func (r *Reconciler) publishRecord(ctx context.Context, k *recordKind, object client.Object, compiled *compiledRecord) error {
	id := k.id(client.ObjectKeyFromObject(object))
	isForeign := false
	if last := r.Publisher.Rollout(id).Record; last != nil {
		uid, _ := last.Source()
		isForeign = uid != string(object.GetUID())
	}
	switch {
	case compiled.ended:
		return r.withdraw(ctx, id)
	case len(compiled.problems) == 0:
		return r.set(ctx, &k.kind, object, compiled.record, isForeign)
	case compiled.withdraws, isForeign:
		return r.withdraw(ctx, id)
	default:
		return nil
	}
}
