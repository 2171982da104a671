// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// refreshShare bounds the CPU that changed Rollouts cost: after handling them for some time,
// the controller ignores further ones for refreshShare times as long.
const refreshShare = 9

// handleSignals does what no API event announces:
//   - when a term begins, it queues all objects and a sweep,
//   - when the registry becomes writable again, it queues a sweep,
//   - when the Rollout of objects changes, it queues their statuses,
//   - when there is room for records that had none, it queues their objects,
//   - when the registry is unusable for OutageDelay, it records an event.
func (r *Reconciler) handleSignals(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s := &signals{reconciler: r, queue: queue, outage: newOutage(r)}
	go s.run(ctx)
	return nil
}

// signals is the state of handleSignals. Only its goroutine uses it.
type signals struct {
	reconciler *Reconciler
	queue      workqueue.TypedRateLimitingInterface[reconcile.Request]
	outage     *outage
	writable   bool
}

func (s *signals) run(ctx context.Context) {
	changes := s.reconciler.Publisher.Changes()
	var listen, lasted <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reconciler.Terms.Started():
			s.beginTerm(ctx)
		case <-changes:
			began := time.Now() //nolint:forbidigo // the CPU time of this call
			s.refresh(ctx)
			changes = nil
			listen = time.After(refreshShare * time.Since(began))
		case <-listen:
			changes = s.reconciler.Publisher.Changes()
		case <-lasted:
		}
		if wait, ok := s.outage.observe(); ok {
			lasted = time.After(wait)
		}
	}
}

// beginTerm queues every object. A kind that cannot be listed, such as one that the process may not read, does not delay
// the other kinds; only a lost registry waits for it.
func (s *signals) beginTerm(ctx context.Context) {
	r := s.reconciler
	t, leading := r.Terms.running()
	if !leading {
		return
	}
	enqueueLowPriority(s.queue, sweep)
	for _, k := range r.kinds {
		k.pass.beginList(t)
		go r.beginPass(ctx, t, k)
	}
}

// beginPass queues every object of the kind.
func (r *Reconciler) beginPass(ctx context.Context, t term, k *kind) {
	ctx, release := t.bind(ctx)
	defer release()
	requests, listed := k.all(ctx, r.client)
	if !listed {
		return
	}
	if k == r.policies {
		r.compiled.retain(requests)
		r.judging.retain(requests)
	}
	k.statuses.beginTerm(t, requests)
	if k.pass.begin(t, requests) {
		r.endInitialPass(ctx, t, k)
	}
	k.enqueue(ctx, requests...)
}

// refresh queues the statuses and requests that changed Rollouts need.
func (s *signals) refresh(ctx context.Context) {
	r := s.reconciler
	registry := r.Publisher.Rollout("")
	writable := registry.Reachable && !registry.OwnedElsewhere
	if writable && !s.writable {
		enqueueLowPriority(s.queue, sweep)
	}
	s.writable = writable
	for _, id := range r.Publisher.Wanted() {
		if k := r.kinds.of(id); k != nil {
			k.enqueue(ctx, reconcile.Request{NamespacedName: nameOf(id)})
		}
	}
	for _, k := range r.kinds {
		if requests := k.statuses.refresh(); len(requests) > 0 {
			k.enqueue(ctx, requests...)
		}
	}
}
