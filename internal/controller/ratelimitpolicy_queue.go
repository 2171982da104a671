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

// nameOf returns the name of the policy whose plan has that ID.
func nameOf(id string) types.NamespacedName {
	namespace, name := plan.SplitID(id)
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// requestedAt returns the value of the annotation that requests a pass, as the status echoes
// it.
func requestedAt(policy client.Object) string {
	value := []rune(policy.GetAnnotations()[v1alpha1.ReconcileRequestedAtAnnotation])
	return string(value[:min(len(value), v1alpha1.MaxLastHandledReconcileAt)])
}

// specChanged passes updates with a new generation, a requested pass, another time of
// ShadowUntilAnnotation or a new UID: a policy
// that is deleted and recreated while the watch is interrupted arrives as one update. It
// filters out the controller's own status writes.
func specChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			requestedAt(e.ObjectOld) != requestedAt(e.ObjectNew) ||
			e.ObjectOld.GetAnnotations()[v1alpha1.ShadowUntilAnnotation] != e.ObjectNew.GetAnnotations()[v1alpha1.ShadowUntilAnnotation]
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

// whileLeading passes the events that arrive in a term: its beginning covers earlier ones, as
// it lists the policies of the cache. Of what the cache held when the controller began to
// watch it, it passes what isMissed.
func (r *Reconciler) whileLeading(isMissed func(t term, object client.Object) bool) predicate.Predicate {
	leading := func() bool { _, leading := r.Terms.running(); return leading }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			t, leading := r.Terms.running()
			return leading && (!e.IsInInitialList || isMissed(t, e.Object))
		},
		UpdateFunc:  func(event.UpdateEvent) bool { return leading() },
		DeleteFunc:  func(event.DeleteEvent) bool { return leading() },
		GenericFunc: func(event.GenericEvent) bool { return leading() },
	}
}

// noneMissed is for Namespaces: a reconcile that needs one waits for it.
func noneMissed(term, client.Object) bool { return false }

// initialPass tracks the policies that a new term has not processed yet.
type initialPass struct {
	mu     sync.Mutex
	term   int64
	listed map[reconcile.Request]bool // all of the term; whether it is pending
	left   int
}

// beginList must be called before the term lists the policies.
func (p *initialPass) beginList(t term) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term, p.listed, p.left = t.number, nil, 0
}

// begin starts the pass over the listed policies. It reports whether the pass is complete at
// once, because the list is empty.
func (p *initialPass) begin(t term, policies []reconcile.Request) (complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term, p.listed, p.left = t.number, make(map[reconcile.Request]bool, len(policies)), len(policies)
	for _, policy := range policies {
		p.listed[policy] = true
	}
	return p.left == 0
}

// done records a policy that was processed in the term, and reports whether it completed the
// pass. A policy that an earlier term processed stays pending.
func (p *initialPass) done(t term, policy reconcile.Request) (complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.listed[policy] || p.term != t.number || t.ended() {
		return false
	}
	p.listed[policy] = false
	p.left--
	return p.left == 0
}

// isPending reports whether the term has not processed the policy yet, or has not listed the
// policies.
func (p *initialPass) isPending(t term, policy reconcile.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.term != t.number || p.listed == nil || p.listed[policy]
}

// misses reports whether the term has listed the policies without this one, which the cache
// holds. While the list is being made, it may miss any.
func (p *initialPass) misses(t term, policy client.Object) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, listed := p.listed[reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)}]
	return p.term == t.number && !listed
}
