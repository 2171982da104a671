// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// sweep is the request to sweep the registry. It cannot collide with a policy,
// which always has a name.
var sweep reconcile.Request

// listRetryDelay is the time between attempts to list the policies. Listing fails
// only while their CRD is not installed.
const listRetryDelay = time.Second

// enqueueOnSignals queues work that no API event announces:
//   - all policies and a sweep when a term begins,
//   - a sweep when the registry becomes writable again,
//   - the policies whose Rollout has changed.
func (r *Reconciler) enqueueOnSignals(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		wasWritable := r.writable()
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.Terms.Begun():
				policies := r.allPolicies(ctx)
				if r.initialPass.begin(policies) {
					r.Publisher.MarkSynced()
				}
				enqueueLowPriority(queue, sweep)
				enqueueLowPriority(queue, policies...)
			case <-r.Publisher.Changes():
				writable := r.writable()
				if writable && !wasWritable {
					enqueueLowPriority(queue, sweep)
				}
				wasWritable = writable
				enqueueLowPriority(queue, r.rollouts.changed(r.Publisher)...)
			}
		}
	}()
	return nil
}

func (r *Reconciler) writable() bool {
	registry := r.Publisher.Rollout("")
	return registry.Reachable && !registry.OwnedElsewhere
}

// allPolicies lists every policy. It waits for the cache and retries until ctx ends.
func (r *Reconciler) allPolicies(ctx context.Context) (requests []reconcile.Request) {
	_ = wait.PollUntilContextCancel(ctx, listRetryDelay, true, func(ctx context.Context) (bool, error) {
		var err error
		requests, err = r.listPolicies(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "Failed to list policies")
		}
		return err == nil, nil
	})
	return requests
}

// policiesOfNamespace lists the policies of a Namespace.
func (r *Reconciler) policiesOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	requests, err := r.listPolicies(ctx, client.InNamespace(namespace.GetName()))
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list policies", "namespace", namespace.GetName())
	}
	return requests
}

func (r *Reconciler) listPolicies(ctx context.Context, options ...client.ListOption) ([]reconcile.Request, error) {
	list := &v1alpha1.RateLimitPolicyList{}
	if err := r.client.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, err
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests, nil
}

// enqueueLowPriority queues requests, perhaps thousands, behind those for policies
// that users have just changed.
func enqueueLowPriority(queue workqueue.TypedRateLimitingInterface[reconcile.Request], requests ...reconcile.Request) {
	if q, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, requests...)
		return
	}
	for _, request := range requests {
		queue.Add(request)
	}
}

// specChanged passes updates with a new generation or a new UID: a policy that is
// deleted and recreated while the watch is interrupted arrives as one update. It
// filters out the controller's own status writes.
func specChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}}
}

// grantChanged passes updates that change the grant of a Namespace.
func grantChanged() predicate.Predicate {
	differs := func(e event.UpdateEvent, annotation string) bool {
		return e.ObjectOld.GetAnnotations()[annotation] != e.ObjectNew.GetAnnotations()[annotation]
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return differs(e, compile.HostsAnnotation) || differs(e, compile.DomainsAnnotation)
	}}
}

// initialPass tracks the policies that a new term has not processed yet.
type initialPass struct {
	mu      sync.Mutex
	pending map[reconcile.Request]struct{}
}

// begin starts a pass over the policies. It reports whether the pass is complete at once,
// because the list is empty.
func (p *initialPass) begin(policies []reconcile.Request) (complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = make(map[reconcile.Request]struct{}, len(policies))
	for _, policy := range policies {
		p.pending[policy] = struct{}{}
	}
	return len(policies) == 0
}

// done records a processed policy and reports whether it completed the pass.
func (p *initialPass) done(policy reconcile.Request) (complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, isPending := p.pending[policy]; !isPending {
		return false
	}
	delete(p.pending, policy)
	return len(p.pending) == 0
}

// rolloutCache holds the last Rollout that the controller saw of each plan, so that
// a change of one replica requeues only the policies it affects.
type rolloutCache struct {
	mu   sync.Mutex
	last map[types.NamespacedName]plan.Rollout
}

// observe returns the Rollout of the policy and stores it. Both happen under one
// lock: a change in between would be missed.
func (c *rolloutCache) observe(p Publisher, name types.NamespacedName) plan.Rollout {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[types.NamespacedName]plan.Rollout{}
	}
	rollout := p.Rollout(name.String())
	c.last[name] = rollout
	return rollout
}

// changed returns the policies whose Rollout differs from the stored one.
func (c *rolloutCache) changed(p Publisher) (requests []reconcile.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, last := range c.last {
		if p.Rollout(name.String()) != last {
			requests = append(requests, reconcile.Request{NamespacedName: name})
		}
	}
	return requests
}

func (c *rolloutCache) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, name)
}
