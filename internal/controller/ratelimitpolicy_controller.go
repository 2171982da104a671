// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/grant"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// workers is the number of policies reconciled concurrently. Several workers let
	// the publisher put several plans into one write.
	workers = 16

	// publishTimeout bounds how long a worker waits for the registry.
	publishTimeout = 2 * time.Second

	// maxStatusWrites limits concurrent status writes. When replicas catch up,
	// hundreds of policies change their status together; more writes would keep the
	// workers and the API server from handling new edits.
	maxStatusWrites = 4

	// statusBusyDelay is the requeue delay while maxStatusWrites are in flight.
	statusBusyDelay = 10 * time.Millisecond

	// conflictDelay is the requeue delay after a conflict. It gives the cache time to
	// receive the newer version.
	conflictDelay = 50 * time.Millisecond

	// minRetryDelay and maxRetryDelay bound the backoff of a failing policy.
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// Reconciler publishes the plan of every RateLimitPolicy and writes its status.
type Reconciler struct {
	Publisher Publisher
	Terms     *TermTracker
	Tenancy   compile.Tenancy
	// Namespaces are those whose policies are enforced. The caches must be limited to them.
	Namespaces Namespaces

	client       client.Client
	grants       *grantTracker // nil if Namespaces are watched
	recorder     events.EventRecorder
	rollouts     rolloutCache
	initialPass  initialPass
	statusWrites *semaphore.Weighted
}

// SetupWithManager adds the controller to the manager. It runs in every process
// but acts only while its process is the leader.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.client = mgr.GetClient()
	r.statusWrites = semaphore.NewWeighted(maxStatusWrites)
	r.recorder = mgr.GetEventRecorder("weir-controller")
	b := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.RateLimitPolicy{}, builder.WithPredicates(specChanged())).
		WatchesRawSource(source.Func(r.enqueueOnSignals)).
		WithOptions(ctrlcontroller.Options{
			MaxConcurrentReconciles: workers,
			NeedLeaderElection:      new(false),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetryDelay, maxRetryDelay),
		})
	switch {
	case r.Tenancy != compile.TenancyNamespace:
	case len(r.Namespaces.Watched) > 0:
		r.grants = newGrantTracker(len(r.Namespaces.Watched))
		b = b.WatchesRawSource(source.Func(r.pollGrants))
	default:
		b = b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfNamespace),
			builder.WithPredicates(grantChanged()))
	}
	return b.Complete(r)
}

// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile publishes one policy or, for the request sweep, removes the orphaned
// plans. Reconciler is not a reconcile.ObjectReconciler because a deleted policy
// needs work too.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (result reconcile.Result, err error) {
	ctx, release, leading := bindToTerm(ctx, r.Terms)
	if !leading {
		return reconcile.Result{}, nil
	}
	defer release()
	if request == sweep {
		// A registry that cannot be written is swept once it can be: see enqueueOnSignals.
		err = ignoreIfReported(r.Publisher.Sweep(ctx, r.policyExists(ctx)), r.Publisher.Rollout(""))
	} else {
		result, err = r.reconcilePolicy(ctx, request.NamespacedName)
	}
	if errors.Is(context.Cause(ctx), errTermEnded) {
		return reconcile.Result{}, nil // the next leader starts with every policy
	}
	return result, err
}

func (r *Reconciler) reconcilePolicy(ctx context.Context, name types.NamespacedName) (reconcile.Result, error) {
	policy := &v1alpha1.RateLimitPolicy{}
	if err := r.client.Get(ctx, name, policy); apierrors.IsNotFound(err) {
		return reconcile.Result{}, r.removePlan(ctx, name)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	granted, err := grant.Of(ctx, r.client, r.Tenancy, policy.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.grants.observe(policy.Namespace, granted)
	problems, publishErr := r.publish(ctx, policy, granted)
	r.markProcessed(ctx, name)
	observed := facts{
		uid:        policy.UID,
		generation: policy.Generation,
		problems:   problems,
		rollout:    r.rollouts.observe(r.Publisher, name),
	}
	switch err := r.commitStatus(ctx, policy, &observed); {
	case errors.Is(err, errStatusBusy):
		return reconcile.Result{RequeueAfter: statusBusyDelay}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, ignoreIfReported(publishErr, observed.rollout)
}

// removePlan deletes the plan of a deleted policy.
func (r *Reconciler) removePlan(ctx context.Context, name types.NamespacedName) error {
	r.rollouts.forget(name)
	err := r.withdraw(ctx, name.String())
	r.markProcessed(ctx, name)
	return ignoreIfReported(err, r.Publisher.Rollout(name.String()))
}

// markProcessed records that the publisher was given the policy in this term, and
// calls MarkSynced after the last one.
func (r *Reconciler) markProcessed(ctx context.Context, name types.NamespacedName) {
	if ctx.Err() == nil && r.initialPass.done(reconcile.Request{NamespacedName: name}) {
		r.Publisher.MarkSynced()
	}
}

// publish hands the plan of the policy to the publisher. A policy that does not
// compile keeps its last plan, unless a match is not permitted or mayKeepPlan forbids it.
func (r *Reconciler) publish(
	ctx context.Context, policy *v1alpha1.RateLimitPolicy, granted compile.Grant,
) (field.ErrorList, error) {
	compiled, problems := compile.Compile(policy, granted)
	id := client.ObjectKeyFromObject(policy).String()
	switch {
	case len(problems) == 0:
		ctx, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		return nil, r.Publisher.Set(ctx, compiled)
	case notAcceptedReason(problems) == v1alpha1.ReasonMatchNotPermitted, !r.mayKeepPlan(policy, granted, id):
		return problems, r.withdraw(ctx, id)
	default:
		return problems, nil
	}
}

// mayKeepPlan reports whether the plan in the registry may stay after an edit that
// does not compile. It must go if it belongs to an earlier policy of that name, or
// if its matches are no longer granted: a broken edit must not preserve them.
func (r *Reconciler) mayKeepPlan(policy *v1alpha1.RateLimitPolicy, granted compile.Grant, id string) bool {
	last := r.Publisher.Rollout(id).Plan
	return last == nil || last.UID == string(policy.UID) && granted.Permits(last)
}

func (r *Reconciler) withdraw(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return r.Publisher.Delete(ctx, id)
}

// policyExists returns a function that reports whether the cache holds a policy of
// that ID. On a read error it returns true: the next sweep finds an orphaned plan.
func (r *Reconciler) policyExists(ctx context.Context) func(id string) bool {
	return func(id string) bool {
		namespace, name, _ := strings.Cut(id, "/")
		if !r.Namespaces.Include(namespace) {
			return false
		}
		err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &v1alpha1.RateLimitPolicy{})
		return !apierrors.IsNotFound(err)
	}
}

// ignoreIfReported drops an error whose cause the status already reports: Redis is
// unreachable or the registry is owned elsewhere. The publisher retries and its
// Changes requeue the policy; retrying every policy here would only fill the log.
func ignoreIfReported(err error, rollout plan.Rollout) error {
	if err == nil || !rollout.Reachable || rollout.OwnedElsewhere {
		return nil
	}
	return fmt.Errorf("publish: %w", err)
}
