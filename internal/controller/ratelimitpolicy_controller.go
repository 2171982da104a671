// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/weir-dev/weir/internal/warning"
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

// Reconciler publishes the plan of every RateLimitPolicy and the records of every RateLimitKeyGroup and RateLimitException, and
// writes their statuses.
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

	// RedisTime is the clock of Redis, by which exceptions end; nil is the clock of this machine.
	RedisTime func() time.Time

	client   client.Client
	grants   *grantTracker // nil if Namespaces are watched
	uncached client.Reader
	recorder events.EventRecorder
	compiled compilations
	judging  compilations // of policies with all grants, to judge exceptions
	kinds    kinds
	policies *kind // of kinds
	synced   syncedKinds

	exceptions  warning.ExceptionIndex
	readingKeys sync.Mutex // see compileKeyGroup
}

// SetupWithManager adds a controller of each kind to the manager. They run in every process
// but act only while their process is the leader.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.client, r.uncached = mgr.GetClient(), mgr.GetAPIReader()
	r.recorder = mgr.GetEventRecorder("weir-controller")
	r.OutageDelay = cmp.Or(r.OutageDelay, defaultOutageDelay)
	policies := policyKind()
	r.policies = &policies.kind
	for _, k := range []*recordKind{policies, keyGroupKind(), exceptionKind()} {
		r.kinds = append(r.kinds, &k.kind)
		k.statuses, k.started = newStatusQueue(&k.kind, r.Publisher, r.OutageDelay), make(chan struct{})
		if err := r.setupStatuses(mgr, &k.kind); err != nil {
			return err
		}
		if err := r.setupRecords(mgr, k); err != nil {
			return err
		}
	}
	if r.Traffic != nil {
		r.policies.statuses.readsTraffic = true
		if r.Gateways != nil {
			r.policies.statuses.gateways = r.Gateways
		}
		if err := mgr.Add(manager.RunnableFunc(r.readTraffic)); err != nil {
			return err
		}
	}
	if r.Denials != nil {
		return mgr.Add(manager.RunnableFunc(r.writeDenialEvents))
	}
	return nil
}

// options are the options of every controller.
func options() ctrlcontroller.Options {
	return ctrlcontroller.Options{
		MaxConcurrentReconciles: workers,
		NeedLeaderElection:      new(false),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetryDelay, maxRetryDelay),
	}
}

// watchForPolicies adds the signals for all kinds, and what changes the grants of policies.
func (r *Reconciler) watchForPolicies(b *builder.Builder) *builder.Builder {
	b = b.WatchesRawSource(source.Func(r.handleSignals))
	switch {
	case r.Tenancy != compile.TenancyNamespace:
	case len(r.Namespaces.Watched) > 0:
		r.grants = newGrantTracker(len(r.Namespaces.Watched))
		b = b.WatchesRawSource(source.Func(r.pollGrants))
	default:
		b = b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfNamespace),
			builder.WithPredicates(grantChanged(), r.whileLeading(noneMissed)))
	}
	return b
}

// Unready returns the policies that are not Ready, as this leader knows them. It must not be
// called before SetupWithManager.
func (r *Reconciler) Unready() plan.Unready { return r.policies.statuses.unready() }

// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitkeygroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitkeygroups/status,verbs=patch
// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitexceptions,verbs=get;list;watch
// +kubebuilder:rbac:groups=ratelimit.weir.dev,resources=ratelimitexceptions/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways;httproutes;grpcroutes,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.envoyproxy.io,resources=securitypolicies,verbs=get;list;watch

// whileTermRuns calls reconcileOne in the running term, if any. It returns when the object is to be compiled again
// without a change; zero is never.
func (r *Reconciler) whileTermRuns(
	ctx context.Context, reconcileOne func(context.Context, term) (again time.Time, err error),
) (reconcile.Result, error) {
	t, leading := r.Terms.running()
	if !leading {
		return reconcile.Result{}, nil
	}
	ctx, release := t.bind(ctx)
	defer release()
	again, err := reconcileOne(ctx, t)
	if t.ended() {
		return reconcile.Result{}, nil // the next leader starts with every object
	}
	if err == nil && !again.IsZero() {
		return reconcile.Result{RequeueAfter: max(time.Until(again), minRetryDelay)}, nil
	}
	return reconcile.Result{}, err
}

// compilePolicy returns the plan of the policy, or its problems. The plan in the registry must go if its matches are no
// longer granted: a broken edit must not preserve them.
func (r *Reconciler) compilePolicy(ctx context.Context, policy *v1alpha1.RateLimitPolicy) (*compiledRecord, error) {
	granted, err := grant.Of(ctx, r.client, r.Tenancy, policy.Namespace)
	if err != nil {
		return nil, err
	}
	r.grants.observe(policy.Namespace, granted)
	c := r.compiled.of(policy, granted, time.Now()) //nolint:forbidigo // plans depend on the date
	compiled := c.record(policy)
	last := r.Publisher.Rollout(client.ObjectKeyFromObject(policy).String()).Plan()
	compiled.dropsLast = last != nil && !granted.Permits(last)
	return compiled, nil
}

// remove deletes the record of a deleted object.
func (r *Reconciler) remove(ctx context.Context, t term, k *kind, name types.NamespacedName) error {
	k.statuses.forget(name)
	if k == r.policies {
		r.compiled.forget(name)
		r.judging.forget(name)
	}
	err := r.withdraw(ctx, k.id(name))
	r.markProcessed(ctx, t, k, name)
	return ignoreIfReported(err, r.Publisher.Rollout(""))
}

// markProcessed records that the publisher was given the object in this term, and
// calls MarkSynced after the last one.
func (r *Reconciler) markProcessed(ctx context.Context, t term, k *kind, name types.NamespacedName) {
	if k.pass.done(t, reconcile.Request{NamespacedName: name}) {
		r.endInitialPass(ctx, t, k)
	}
}

// endInitialPass records that all objects of the kind were processed in this term, and calls MarkSynced after the last
// kind.
func (r *Reconciler) endInitialPass(ctx context.Context, t term, k *kind) {
	if !r.synced.add(t, k, len(r.kinds)) {
		return
	}
	r.Publisher.MarkSynced(ctx)
	for _, k := range r.kinds {
		k.statuses.endInitialPass(t)
	}
}

// isEdited reports whether a user has just changed the object: its generation is not reported
// yet, and it is not one of the objects that an earlier leader left behind.
func (r *Reconciler) isEdited(t term, k *kind, object client.Object) bool {
	was := earlierOf(object)
	return was.observedGeneration != object.GetGeneration() &&
		(was.observedGeneration > 0 ||
			!k.pass.isPending(t, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}))
}

// set makes the record of the object the desired one. dropLast is as in plan.SetOptions.
func (r *Reconciler) set(ctx context.Context, k *kind, object client.Object, record plan.Record, dropLast bool) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	was := earlierOf(object)
	o := plan.SetOptions{
		Created: object.GetCreationTimestamp().Time, WasProgrammed: was.isProgrammed(object.GetGeneration()), DropLast: dropLast,
	}
	err := r.Publisher.Set(ctx, record, o)
	if errors.Is(err, plan.ErrOlderGeneration) && k.isCurrent(ctx, r.uncached, object) {
		o.Restored = true
		return r.Publisher.Set(ctx, record, o)
	}
	return err
}

func (r *Reconciler) withdraw(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return r.Publisher.Delete(ctx, id)
}

// sourceExists reports whether there is an object whose record has that ID. Objects of Namespaces that are not
// included count as gone.
func (r *Reconciler) sourceExists(ctx context.Context, id string) (bool, error) {
	name, k := nameOf(id), r.kinds.of(id)
	if !r.Namespaces.Include(name.Namespace) || k == nil {
		return false, nil
	}
	return k.exists(ctx, r.client, r.uncached, name)
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
