// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
)

// errCacheBehind means that the cache does not hold the version yet that the next write has
// to name.
var errCacheBehind = errors.New("the cache is behind the API server")

// writeStatuses writes the statuses of the kind that are due until ctx ends.
//
// It is shorter than a Controller with a source.Func, which would also change what users see:
//   - A Controller logs and counts every error that it retries with backoff, so conflicts would not be
//     quiet. Its retry without an error (RequeueAfter) has no backoff; the one with backoff is deprecated.
//   - It resets the backoff of a status that is taken before it is due.
//   - It has no queue until it starts, but facts are recorded from the first reconcile on.
func (r *Reconciler) writeStatuses(ctx context.Context, k *kind) error {
	defer context.AfterFunc(ctx, k.statuses.queue.ShutDown)()
	pace := rate.NewLimiter(rate.Every(statusInterval), 1)
	var writers sync.WaitGroup
	for range statusWriters {
		writers.Go(func() {
			for r.writeNextStatus(ctx, k, pace) {
			}
		})
	}
	writers.Wait()
	return nil
}

// writeNextStatus waits for the next status and writes it. It returns false after a shutdown.
func (r *Reconciler) writeNextStatus(ctx context.Context, k *kind, pace *rate.Limiter) bool {
	name, shutdown := k.statuses.queue.Get()
	if shutdown {
		return false
	}
	defer k.statuses.queue.Done(name)
	if pace.Wait(ctx) != nil {
		return true
	}
	s, t, due := k.statuses.take(name)
	if !due {
		return true
	}
	ctx, release := t.bind(ctx)
	defer release()
	err := r.writeStatus(ctx, k, name, &s)
	switch {
	case err == nil || t.ended():
		return true
	case apierrors.IsConflict(err):
		// Conflicts do not add up to a long delay: while a client keeps changing the policy,
		// most writes are late.
		k.statuses.queue.Forget(name)
	case errors.Is(err, errCacheBehind):
	case ctx.Err() == nil:
		log.FromContext(ctx).Error(err, "Failed to write a status", "kind", k.name, "object", name)
	}
	k.statuses.retry(name, s.isEdited)
	return true
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
	r.recordBypass(object, k.earlier(object).conditions, next.conditions)
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
