// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// kind is one kind of objects, each of which compiles to one record of the registry.
type kind struct {
	record plan.Kind // of its records
	name   string    // of the kind
	plural string    // for logs

	newObject func() client.Object
	newList   func() client.ObjectList
	// status returns the status that follows from the facts.
	status func(client.Object, *facts) newStatus

	pass     initialPass
	statuses *statusQueue
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request]
	started  chan struct{} // closed when queue is set
}

// earlierStatus is what a status reports, in the version of the object that the cache holds.
type earlierStatus struct {
	conditions         []metav1.Condition
	observedGeneration int64
	requestedAt        string // the request that was handled
}

// earlierOf returns what the status of the object reports.
func earlierOf(object client.Object) earlierStatus {
	switch o := object.(type) {
	case *v1alpha1.RateLimitPolicy:
		return earlierStatus{o.Status.Conditions, o.Status.ObservedGeneration, o.Status.LastHandledReconcileAt}
	case *v1alpha1.RateLimitKeyGroup:
		return earlierStatus{conditions: o.Status.Conditions, observedGeneration: o.Status.ObservedGeneration}
	case *v1alpha1.RateLimitException:
		return earlierStatus{conditions: o.Status.Conditions, observedGeneration: o.Status.ObservedGeneration}
	}
	return earlierStatus{}
}

// newStatus is a status that may be written.
type newStatus struct {
	status     any // as in the API
	conditions []metav1.Condition
	isNew      bool // it differs from the earlier one in more than what waits for the next write
}

// isProgrammed reports whether the status reports that the registry held the record of this generation.
func (s *earlierStatus) isProgrammed(generation int64) bool {
	c := meta.FindStatusCondition(s.conditions, v1alpha1.ConditionProgrammed)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
}

// id returns the ID of the record of the object with the name.
func (k *kind) id(name types.NamespacedName) string {
	return plan.IDOf(k.record, name.Namespace, name.Name)
}

// metadata returns an object that only the metadata is read into.
func (k *kind) metadata() *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.name))
	return metadata
}

// start sets the queue of the controller of the kind. It has the form of a source.Func.
func (k *kind) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	k.queue = queue
	close(k.started)
	return nil
}

// enqueue queues the requests behind the objects that users have just changed. It waits for the controller of the kind.
func (k *kind) enqueue(ctx context.Context, requests ...reconcile.Request) {
	select {
	case <-k.started:
		enqueueLowPriority(k.queue, requests...)
	case <-ctx.Done():
	}
}

// all lists the objects. It waits for the cache and retries until ctx ends, when it returns false. A kind whose CRD is
// not installed has no objects; its controller waits for the CRD.
func (k *kind) all(ctx context.Context, reader client.Reader) (requests []reconcile.Request, listed bool) {
	err := wait.PollUntilContextCancel(ctx, listRetryDelay, true, func(ctx context.Context) (bool, error) {
		var err error
		requests, err = k.list(ctx, reader)
		switch {
		case meta.IsNoMatchError(err):
			log.FromContext(ctx).Error(err, "Install the CRD; until then there are no "+k.plural)
			return true, nil
		case err != nil && ctx.Err() == nil:
			log.FromContext(ctx).Error(err, "Failed to list "+k.plural)
		}
		return err == nil, nil
	})
	return requests, err == nil
}

func (k *kind) list(ctx context.Context, reader client.Reader, options ...client.ListOption) ([]reconcile.Request, error) {
	list := k.newList()
	if err := reader.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, err
	}
	requests := make([]reconcile.Request, 0, meta.LenList(list))
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}})
		}
		return err
	})
	return requests, err
}

// kinds are all kinds of the controller.
type kinds []*kind

// of returns the kind of the record with the ID.
func (ks kinds) of(id string) *kind {
	record := plan.KindOf(id)
	for _, k := range ks {
		if k.record == record {
			return k
		}
	}
	return nil
}

// exists reports whether there is an object of that name. The API server must confirm that
// it is gone, because the cache may have started behind it.
func (k *kind) exists(ctx context.Context, cached, uncached client.Reader, name types.NamespacedName) (bool, error) {
	err := cached.Get(ctx, name, k.newObject(), client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		err = uncached.Get(ctx, name, k.metadata())
	}
	return err == nil, client.IgnoreNotFound(err)
}

// isCurrent reports whether the API server confirms the generation of the object. The cache
// may be behind; a lower generation is real only after a restore of etcd.
func (k *kind) isCurrent(ctx context.Context, uncached client.Reader, object client.Object) bool {
	current := k.metadata()
	err := uncached.Get(ctx, client.ObjectKeyFromObject(object), current)
	return err == nil && current.UID == object.GetUID() && current.Generation == object.GetGeneration()
}
