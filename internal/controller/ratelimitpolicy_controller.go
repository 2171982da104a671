// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/gatewayapi"
	"github.com/weir-dev/weir/internal/grant"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// workers is the number of policies reconciled concurrently. Several workers let
	// the publisher put several plans into one write.
	workers = 16

	// publishTimeout bounds how long a worker waits for the registry.
	publishTimeout = 2 * time.Second

	// minRetryDelay and maxRetryDelay bound the backoff of a failing policy.
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = 30 * time.Second

	// defaultOutageDelay is longer than a restart of Redis or of a replica.
	defaultOutageDelay = 12 * time.Second
)

// Reconciler publishes the plan of every RateLimitPolicy and writes its status.
type Reconciler struct {
	Publisher Publisher
	Terms     *TermTracker
	Tenancy   compile.Tenancy
	// Namespaces are those whose policies are enforced. The caches must be limited to them.
	Namespaces Namespaces

	// Traffic is read for the condition Wired; nil adds no such condition.
	Traffic Traffic

	// Denials are read for the events that denials begin and end; nil writes no such events.
	Denials Denials

	// Gateways are the objects of the Gateway API, for the condition Wired of policies with targetRefs; nil
	// reads none. The caller starts it.
	Gateways *gatewayapi.Cache

	// Lease is the Lease of the leader, which gets the events on the registry; nil
	// records none.
	Lease *corev1.ObjectReference

	// OutageDelay is how long a state outside of a policy, such as an unreachable
	// registry, must last before it reaches a status of that generation, and before an
	// event reports it. Defaults to 12 s.
	OutageDelay time.Duration

	client      client.Client
	grants      *grantTracker // nil if Namespaces are watched
	uncached    client.Reader
	recorder    events.EventRecorder
	compiled    compilations
	initialPass initialPass
	statuses    *statusQueue
}

// SetupWithManager adds the controller to the manager. It runs in every process
// but acts only while its process is the leader.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.client, r.uncached = mgr.GetClient(), mgr.GetAPIReader()
	r.recorder = mgr.GetEventRecorder("weir-controller")
	r.OutageDelay = cmp.Or(r.OutageDelay, defaultOutageDelay)
	r.statuses = newStatusQueue(r.Publisher, r.OutageDelay)
	if err := mgr.Add(manager.RunnableFunc(r.writeStatuses)); err != nil {
		return err
	}
	if r.Traffic != nil {
		r.statuses.readsTraffic, r.statuses.gateways = true, r.Gateways
		if err := mgr.Add(manager.RunnableFunc(r.readTraffic)); err != nil {
			return err
		}
	}
	if r.Denials != nil {
		if err := mgr.Add(manager.RunnableFunc(r.writeDenialEvents)); err != nil {
			return err
		}
	}
	b := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.RateLimitPolicy{}, builder.WithPredicates(specChanged(), r.whileLeading(r.initialPass.misses))).
		WatchesRawSource(source.Func(r.handleSignals)).
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
			builder.WithPredicates(grantChanged(), r.whileLeading(noneMissed)))
	}
	return b.Complete(r)
}

// Unready returns the policies that are not Ready, as this leader knows them. It must not be
// called before SetupWithManager.
func (r *Reconciler) Unready() plan.Unready { return r.statuses.unready() }

// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways;httproutes;grpcroutes,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.envoyproxy.io,resources=securitypolicies,verbs=get;list;watch

// Reconcile publishes one policy or, for the request sweep, removes the orphaned
// plans. The status queue writes the status later. Reconciler is not a
// reconcile.ObjectReconciler because a deleted policy needs work too.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	t, leading := r.Terms.running()
	if !leading {
		return reconcile.Result{}, nil
	}
	ctx, release := t.bind(ctx)
	defer release()
	var again time.Time
	var err error
	if request == sweep {
		err = ignoreIfReported(r.Publisher.Sweep(ctx, r.policyExists), r.Publisher.Rollout(""))
	} else {
		again, err = r.reconcilePolicy(ctx, t, request.NamespacedName)
	}
	if t.ended() {
		return reconcile.Result{}, nil // the next leader starts with every policy
	}
	if err == nil && !again.IsZero() {
		return reconcile.Result{RequeueAfter: max(time.Until(again), minRetryDelay)}, nil
	}
	return reconcile.Result{}, err
}

// reconcilePolicy publishes the policy. It returns when the policy is to be compiled again
// without a change; zero is never.
func (r *Reconciler) reconcilePolicy(ctx context.Context, t term, name types.NamespacedName) (again time.Time, err error) {
	policy := &v1alpha1.RateLimitPolicy{}
	if err := r.client.Get(ctx, name, policy); apierrors.IsNotFound(err) {
		return again, r.removePlan(ctx, t, name)
	} else if err != nil {
		return again, err
	}
	granted, err := grant.Of(ctx, r.client, r.Tenancy, policy.Namespace)
	if err != nil {
		return again, err
	}
	r.grants.observe(policy.Namespace, granted)
	compiled := r.compiled.of(policy, granted, time.Now()) //nolint:forbidigo // plans depend on the date
	publishErr := r.publish(ctx, policy, compiled)
	r.statuses.observe(t, policy, compiled, r.isEdited(t, policy))
	r.markProcessed(ctx, t, name)
	return compiled.again(), ignoreIfReported(publishErr, r.Publisher.Rollout(""))
}

// removePlan deletes the plan of a deleted policy.
func (r *Reconciler) removePlan(ctx context.Context, t term, name types.NamespacedName) error {
	r.statuses.forget(name)
	r.compiled.forget(name)
	err := r.withdraw(ctx, name.String())
	r.markProcessed(ctx, t, name)
	return ignoreIfReported(err, r.Publisher.Rollout(""))
}

// markProcessed records that the publisher was given the policy in this term, and
// calls MarkSynced after the last one.
func (r *Reconciler) markProcessed(ctx context.Context, t term, name types.NamespacedName) {
	if r.initialPass.done(t, reconcile.Request{NamespacedName: name}) {
		r.Publisher.MarkSynced(ctx)
		r.statuses.endInitialPass(t)
	}
}

// isEdited reports whether a user has just changed the policy: its generation is not reported
// yet, and it is not one of the policies that an earlier leader left behind.
func (r *Reconciler) isEdited(t term, policy *v1alpha1.RateLimitPolicy) bool {
	return policy.Status.ObservedGeneration != policy.Generation &&
		(policy.Status.ObservedGeneration > 0 ||
			!r.initialPass.isPending(t, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)}))
}

// publish hands the plan of the policy to the publisher. A policy that does not compile, or
// that has no room, keeps its last plan, unless a match is not permitted or mayKeepPlan forbids
// it.
func (r *Reconciler) publish(ctx context.Context, policy *v1alpha1.RateLimitPolicy, compiled *compilation) error {
	id := client.ObjectKeyFromObject(policy).String()
	switch {
	case len(compiled.problems) == 0:
		ctx, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		o := plan.SetOptions{
			Created: policy.CreationTimestamp.Time, WasProgrammed: wasProgrammed(policy),
			DropLast: !r.mayKeepPlan(policy, compiled.granted, id),
		}
		err := r.Publisher.Set(ctx, compiled.plan, o)
		if errors.Is(err, plan.ErrOlderGeneration) && r.isCurrent(ctx, policy) {
			o.Restored = true
			return r.Publisher.Set(ctx, compiled.plan, o)
		}
		return err
	case notAcceptedReason(compiled.problems) == v1alpha1.ReasonMatchNotPermitted,
		!r.mayKeepPlan(policy, compiled.granted, id):
		return r.withdraw(ctx, id)
	default:
		return nil
	}
}

// wasProgrammed reports whether the status reports that the registry held the plan of this
// generation.
func wasProgrammed(policy *v1alpha1.RateLimitPolicy) bool {
	c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionProgrammed)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == policy.Generation
}

// isCurrent reports whether the API server confirms the generation of the policy. The cache
// may be behind; a lower generation is real only after a restore of etcd.
func (r *Reconciler) isCurrent(ctx context.Context, policy *v1alpha1.RateLimitPolicy) bool {
	current := policyMetadata()
	err := r.uncached.Get(ctx, client.ObjectKeyFromObject(policy), current)
	return err == nil && current.UID == policy.UID && current.Generation == policy.Generation
}

// mayKeepPlan reports whether the plan in the registry may stay after an edit that is not
// accepted. It must go if it belongs to an earlier policy of that name, or
// if its matches are no longer granted: a broken edit must not preserve them.
func (r *Reconciler) mayKeepPlan(policy *v1alpha1.RateLimitPolicy, granted compile.Grant, id string) bool {
	last := r.Publisher.Rollout(id).Plan()
	return last == nil || last.UID == string(policy.UID) && granted.Permits(last)
}

func (r *Reconciler) withdraw(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return r.Publisher.Delete(ctx, id)
}

// policyExists reports whether there is a policy of that ID. The API server must confirm that
// it is gone, because the cache may have started behind it. Policies of Namespaces that are not
// included count as gone.
func (r *Reconciler) policyExists(ctx context.Context, id string) (bool, error) {
	name := nameOf(id)
	if !r.Namespaces.Include(name.Namespace) {
		return false, nil
	}
	err := r.client.Get(ctx, name, &v1alpha1.RateLimitPolicy{}, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		err = r.uncached.Get(ctx, name, policyMetadata())
	}
	return err == nil, client.IgnoreNotFound(err)
}

func policyMetadata() *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RateLimitPolicy"))
	return metadata
}

// ignoreIfReported drops an error whose cause the status already reports: Redis is
// unreachable or the registry is owned elsewhere. The publisher retries, and a registry that
// can be written again is swept: see handleSignals. Retrying every policy here would only fill
// the log.
func ignoreIfReported(err error, rollout plan.Rollout) error {
	if err == nil || !rollout.Reachable || rollout.OwnedElsewhere {
		return nil
	}
	return fmt.Errorf("publish: %w", err)
}
