// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
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

// writeStatuses writes the statuses that are due until ctx ends.
//
// It is shorter than a Controller with a source.Func, which would also change what users see:
//   - A Controller logs and counts every error that it retries with backoff, so conflicts would not be
//     quiet. Its retry without an error (RequeueAfter) has no backoff; the one with backoff is deprecated.
//   - It resets the backoff of a status that is taken before it is due.
//   - It has no queue until it starts, but facts are recorded from the first reconcile on.
func (r *Reconciler) writeStatuses(ctx context.Context) error {
	defer context.AfterFunc(ctx, r.statuses.queue.ShutDown)()
	pace := rate.NewLimiter(rate.Every(statusInterval), 1)
	var writers sync.WaitGroup
	for range statusWriters {
		writers.Go(func() {
			for r.writeNextStatus(ctx, pace) {
			}
		})
	}
	writers.Wait()
	return nil
}

// writeNextStatus waits for the next status and writes it. It returns false after a shutdown.
func (r *Reconciler) writeNextStatus(ctx context.Context, pace *rate.Limiter) bool {
	name, shutdown := r.statuses.queue.Get()
	if shutdown {
		return false
	}
	defer r.statuses.queue.Done(name)
	if pace.Wait(ctx) != nil {
		return true
	}
	s, t, due := r.statuses.take(name)
	if !due {
		return true
	}
	ctx, release := t.bind(ctx)
	defer release()
	err := r.writeStatus(ctx, name, &s)
	switch {
	case err == nil || t.ended():
		return true
	case apierrors.IsConflict(err):
		// Conflicts do not add up to a long delay: while a client keeps changing the policy,
		// most writes are late.
		r.statuses.queue.Forget(name)
	case errors.Is(err, errCacheBehind):
	case ctx.Err() == nil:
		log.FromContext(ctx).Error(err, "Failed to write a status", "policy", name)
	}
	r.statuses.retry(name, s.isEdited)
	return true
}

// writeStatus writes the status that follows from the facts, unless the policy has it, then
// records an event. It does nothing for a policy that has changed since: a reconcile follows.
func (r *Reconciler) writeStatus(ctx context.Context, name types.NamespacedName, s *statusRecord) error {
	policy := &v1alpha1.RateLimitPolicy{}
	if err := r.client.Get(ctx, name, policy, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	switch {
	case policy.UID != s.uid || policy.Generation != s.generation:
		return nil
	case policy.ResourceVersion == s.outdated:
		return errCacheBehind
	}
	status := s.status(policy)
	if !needsWrite(&policy.Status, &status) {
		r.statuses.wrote(name, s)
		return nil
	}
	version, err := r.patchStatus(ctx, policy, &status)
	if apierrors.IsConflict(err) || err == nil && version != policy.ResourceVersion {
		r.statuses.outdate(name, policy.ResourceVersion)
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.recordEvent(policy, &status, s)
	r.recordBypass(policy, &status)
	r.statuses.wrote(name, s)
	return nil
}

// needsWrite reports whether the status is to be written. A change of enforcedGeneration or of Warnings
// alone waits for the next write: a new release must not rewrite all statuses.
func needsWrite(was, is *v1alpha1.RateLimitPolicyStatus) bool {
	stripped := func(s *v1alpha1.RateLimitPolicyStatus) *v1alpha1.RateLimitPolicyStatus {
		rest := *s
		rest.EnforcedGeneration = nil
		rest.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionWarnings })
		return &rest
	}
	return !equality.Semantic.DeepEqual(stripped(was), stripped(is))
}

// patchStatus replaces the status and returns the new version of the policy. A merge patch
// replaces the whole list of conditions, so the patch carries an optimistic lock. It never
// removes a field, because no field of a status becomes empty again.
func (r *Reconciler) patchStatus(
	ctx context.Context, policy *v1alpha1.RateLimitPolicy, status *v1alpha1.RateLimitPolicyStatus,
) (version string, err error) {
	var patch struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
		Status *v1alpha1.RateLimitPolicyStatus `json:"status"`
	}
	patch.Metadata.UID, patch.Metadata.ResourceVersion, patch.Status = policy.UID, policy.ResourceVersion, status
	data, err := json.Marshal(patch)
	if err != nil {
		return "", fmt.Errorf("encode the status: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	patched := policyMetadata()
	patched.Namespace, patched.Name = policy.Namespace, policy.Name
	err = r.client.Status().Patch(ctx, patched, client.RawPatch(types.MergePatchType, data))
	return patched.ResourceVersion, err
}
