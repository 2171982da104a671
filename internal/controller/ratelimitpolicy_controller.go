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
	// workers is how many policies are worked on at once. It is above one so that
	// the publisher can put several of them into one write.
	workers = 16

	// publishTimeout bounds how long a worker waits for the registry.
	publishTimeout = 2 * time.Second

	// maxStatusWrites is how many statuses are written at once. When replicas catch
	// up, hundreds of policies change their status together; more writers would keep
	// workers, and the API server, from the edits that come meanwhile.
	maxStatusWrites = 4

	// statusBusyDelay is how long a status waits while others are written.
	statusBusyDelay = 10 * time.Millisecond

	// conflictDelay is how long the cache may take to see the write that another
	// lost to.
	conflictDelay = 50 * time.Millisecond

	// minRetryDelay and maxRetryDelay are between attempts that fail.
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// Reconciler publishes the plan of every RateLimitPolicy and writes its status.
type Reconciler struct {
	Publisher Publisher
	Terms     *TermTracker
	Tenancy   compile.Tenancy

	client       client.Client
	recorder     events.EventRecorder
	rollouts     rolloutCache
	initialPass  initialPass
	statusWrites *semaphore.Weighted
}

// SetupWithManager adds the controller to the manager. It runs in every process;
// only the leader's does anything.
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
	if r.Tenancy == compile.TenancyNamespace {
		b = b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfNamespace),
			builder.WithPredicates(grantChanged()))
	}
	return b.Complete(r)
}

// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one policy, or with the request sweep the whole registry, in
// step. It is no reconcile.ObjectReconciler, because a policy that is gone is
// work here.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (result reconcile.Result, err error) {
	ctx, release, leading := bindToTerm(ctx, r.Terms)
	if !leading {
		return reconcile.Result{}, nil
	}
	defer release()
	if request == sweep {
		// A registry that cannot be written is swept when it can.
		err = ignoreIfReported(r.Publisher.Sweep(ctx, r.policyExists(ctx)), r.Publisher.Rollout(""))
	} else {
		result, err = r.reconcilePolicy(ctx, request.NamespacedName)
	}
	if errors.Is(context.Cause(ctx), errTermEnded) {
		return reconcile.Result{}, nil // whoever leads next begins with everything
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

// removePlan deletes the plan of a policy that is gone.
func (r *Reconciler) removePlan(ctx context.Context, name types.NamespacedName) error {
	r.rollouts.forget(name)
	err := r.withdraw(ctx, name.String())
	r.markProcessed(ctx, name)
	return ignoreIfReported(err, r.Publisher.Rollout(name.String()))
}

// markProcessed takes note that the publisher knows what is wanted of the policy.
func (r *Reconciler) markProcessed(ctx context.Context, name types.NamespacedName) {
	if ctx.Err() == nil && r.initialPass.done(reconcile.Request{NamespacedName: name}) {
		r.Publisher.Synced()
	}
}

// publish hands the plan of the policy to the publisher. Without one the last
// plan stays, unless it must not.
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

// mayKeepPlan reports whether the plan in the registry may outlive an edit that does
// not compile. It may not if it is of an earlier policy of that name or matches
// what has been granted then but is no more: a broken edit must not hold on to
// it.
func (r *Reconciler) mayKeepPlan(policy *v1alpha1.RateLimitPolicy, granted compile.Grant, id string) bool {
	last := r.Publisher.Rollout(id).Plan
	return last == nil || last.UID == string(policy.UID) && granted.Permits(last)
}

func (r *Reconciler) withdraw(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return r.Publisher.Delete(ctx, id)
}

// policyExists tells whether there is a policy of an ID, as far as the cache knows now.
// In doubt there is one: a plan too many is found by the next sweep.
func (r *Reconciler) policyExists(ctx context.Context) func(id string) bool {
	return func(id string) bool {
		namespace, name, _ := strings.Cut(id, "/")
		err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &v1alpha1.RateLimitPolicy{})
		return !apierrors.IsNotFound(err)
	}
}

// ignoreIfReported returns the error unless the rollout accounts for it: then the
// publisher keeps trying, its Changes bring the policy back here, and retrying
// every policy of the cluster meanwhile would do nothing but fill the log.
func ignoreIfReported(err error, s plan.Rollout) error {
	if err == nil || !s.Reachable || s.OwnedElsewhere {
		return nil
	}
	return fmt.Errorf("publish: %w", err)
}
