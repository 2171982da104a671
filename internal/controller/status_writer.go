// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// statusWriters is the number of concurrent writes: few enough to leave the API server
	// and the CPU to others when thousands of policies change together.
	statusWriters = 8

	// statusInterval is the shortest time between the starts of two writes. Without it the
	// writers come in bursts, which delay the decisions of this process.
	statusInterval = 1500 * time.Microsecond

	// statusTimeout bounds one write.
	statusTimeout = 10 * time.Second

	// cacheDelay is how long a write waits for the cache, again and again.
	cacheDelay = 100 * time.Millisecond
)

// errCacheBehind means that the cache does not hold the version yet that the next write has
// to name.
var errCacheBehind = errors.New("the cache is behind the API server")

// setupStatuses adds a controller to the manager that writes the statuses of the kind. Its queue is the status queue, so
// that it holds facts from the first reconcile on, and edits come before the rest.
//
// It replaced workers of our own. With 1,000 and 5,000 policies both took 1.00 reconciles and 1.01 to 1.02 patches for
// each (BenchmarkScale). A failed write is logged, counted and retried as in every controller.
func (r *Reconciler) setupStatuses(mgr ctrl.Manager, k *kind) error {
	pace := rate.NewLimiter(rate.Every(statusInterval), 1)
	o := options()
	o.MaxConcurrentReconciles = statusWriters
	o.NewQueue = func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return k.statuses.queue
	}
	o.Reconciler = reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		_ = pace.Wait(ctx) // fails only when ctx ends, as the write will then
		return r.reconcileStatus(ctx, k, request.NamespacedName)
	})
	_, err := ctrlcontroller.New(k.statuses.name, mgr, o)
	return err
}

// reconcileStatus writes a status that is due.
func (r *Reconciler) reconcileStatus(ctx context.Context, k *kind, name types.NamespacedName) (reconcile.Result, error) {
	s, t, due := k.statuses.take(name)
	if !due {
		return reconcile.Result{}, nil
	}
	ctx, release := t.bind(ctx)
	defer release()
	err := r.writeStatus(ctx, k, name, &s)
	switch {
	case ctx.Err() != nil:
		return reconcile.Result{}, nil // the next leader starts with every object
	case apierrors.IsConflict(err):
		// Conflicts do not add up to a long delay: while a client keeps changing the policy, most writes are late.
		return reconcile.Result{RequeueAfter: minRetryDelay}, nil
	case errors.Is(err, errCacheBehind):
		return reconcile.Result{RequeueAfter: cacheDelay}, nil
	default:
		return reconcile.Result{}, err
	}
}

// writeStatus writes the status that follows from the facts, unless the object has it, then
// records an event. It does nothing for an object that has changed since: a reconcile follows.
func (r *Reconciler) writeStatus(ctx context.Context, k *kind, name types.NamespacedName, s *statusRecord) error {
	object := k.newObject()
	if err := r.client.Get(ctx, name, object, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	switch {
	case object.GetUID() != s.uid || object.GetGeneration() != s.generation:
		return nil
	case object.GetResourceVersion() == s.outdated:
		return errCacheBehind
	}
	next := k.status(object, &s.facts)
	if !next.isNew {
		k.statuses.wrote(name, s)
		return nil
	}
	version, err := r.patchStatus(ctx, k, object, next.status)
	if apierrors.IsConflict(err) || err == nil && version != object.GetResourceVersion() {
		k.statuses.outdate(name, object.GetResourceVersion())
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.recordEvent(object, next.conditions, s)
	r.recordBypass(object, earlierOf(object).conditions, next.conditions)
	k.statuses.wrote(name, s)
	return nil
}

// patchStatus replaces the status and returns the new version of the object. A merge patch
// replaces the whole list of conditions, so the patch carries an optimistic lock. It never
// removes a field, because no field of a status becomes empty again.
func (r *Reconciler) patchStatus(ctx context.Context, k *kind, object client.Object, status any) (version string, err error) {
	var patch struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
		Status any `json:"status"`
	}
	patch.Metadata.UID, patch.Metadata.ResourceVersion, patch.Status = object.GetUID(), object.GetResourceVersion(), status
	data, err := json.Marshal(patch)
	if err != nil {
		return "", fmt.Errorf("encode the status: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	patched := k.metadata()
	patched.Namespace, patched.Name = object.GetNamespace(), object.GetName()
	err = r.client.Status().Patch(ctx, patched, client.RawPatch(types.MergePatchType, data))
	return patched.ResourceVersion, err
}
