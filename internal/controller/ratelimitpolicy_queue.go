// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// listRetryDelay is the time between attempts to list the objects of a kind.
const listRetryDelay = time.Second

// policiesOfNamespace lists the policies of a Namespace.
func (r *Reconciler) policiesOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	requests, err := r.policies.list(ctx, r.client, client.InNamespace(namespace.GetName()))
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list policies", "namespace", namespace.GetName())
	}
	return requests
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

// nameOf returns the name of the object whose record has that ID.
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
// that is deleted and recreated while the watch is interrupted arrives as one update. It passes
// one generation twice if the first time it had no fields of a later release, because the watch began before the
// schema had them. It filters out the controller's own status writes.
func specChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			requestedAt(e.ObjectOld) != requestedAt(e.ObjectNew) ||
			!slices.Equal(unsupportedOf(e.ObjectOld), unsupportedOf(e.ObjectNew)) ||
			e.ObjectOld.GetAnnotations()[v1alpha1.ShadowUntilAnnotation] != e.ObjectNew.GetAnnotations()[v1alpha1.ShadowUntilAnnotation]
	}}
}

// unsupportedOf returns what the object has from a later release.
func unsupportedOf(object client.Object) []string {
	switch o := object.(type) {
	case *v1alpha1.RateLimitPolicy:
		return o.Spec.Unsupported
	case *v1alpha1.RateLimitKeyGroup:
		return o.Spec.Unsupported
	case *v1alpha1.RateLimitException:
		return o.Spec.Unsupported
	}
	return nil
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
