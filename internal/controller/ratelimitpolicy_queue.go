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

// sweep is the request to sweep the registry. No policy is without a name.
var sweep reconcile.Request

// listRetryDelay is the time between attempts to list the policies, which fail only
// while their definition is not installed.
const listRetryDelay = time.Second

// enqueueOnSignals queues what is to be done for other reasons than a change in the API:
// everything when a term begins, a sweep when the registry can be written again,
// and the policies whose Rollout has changed.
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
					r.Publisher.Synced()
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
	s := r.Publisher.Rollout("")
	return s.Reachable && !s.OwnedElsewhere
}

// allPolicies lists every policy. It waits for the cache.
func (r *Reconciler) allPolicies(ctx context.Context) (requests []reconcile.Request) {
	_ = wait.PollUntilContextCancel(ctx, listRetryDelay, true, func(ctx context.Context) (bool, error) {
		var err error
		requests, err = r.listPolicies(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot list policies")
		}
		return err == nil, nil
	})
	return requests
}

// policiesOfNamespace lists the policies of a Namespace.
func (r *Reconciler) policiesOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	requests, err := r.listPolicies(ctx, client.InNamespace(namespace.GetName()))
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list policies", "namespace", namespace.GetName())
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

// enqueueLowPriority queues behind what users have just changed: thousands of policies may be
// meant.
func enqueueLowPriority(queue workqueue.TypedRateLimitingInterface[reconcile.Request], requests ...reconcile.Request) {
	if q, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, requests...)
		return
	}
	for _, request := range requests {
		queue.Add(request)
	}
}

// specChanged lets through what makes a policy another: a new generation, or a
// new object of the same name that took the place of the old one unseen. It hides
// the controller's own writes.
func specChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}}
}

// grantChanged lets through what may change the grant of a Namespace.
func grantChanged() predicate.Predicate {
	differs := func(e event.UpdateEvent, annotation string) bool {
		return e.ObjectOld.GetAnnotations()[annotation] != e.ObjectNew.GetAnnotations()[annotation]
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return differs(e, compile.HostsAnnotation) || differs(e, compile.DomainsAnnotation)
	}}
}

// initialPass is the first look at every policy in a term.
type initialPass struct {
	mu      sync.Mutex
	pending map[reconcile.Request]struct{}
}

// begin starts a round of those policies and reports whether it is over already.
func (p *initialPass) begin(policies []reconcile.Request) (over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = make(map[reconcile.Request]struct{}, len(policies))
	for _, policy := range policies {
		p.pending[policy] = struct{}{}
	}
	return len(policies) == 0
}

// done takes note of a policy and reports whether it was the last one.
func (p *initialPass) done(policy reconcile.Request) (over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, waited := p.pending[policy]; !waited {
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
