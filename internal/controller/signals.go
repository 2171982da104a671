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
//   - when a term begins, it queues all policies and a sweep,
//   - when the registry becomes writable again, it queues a sweep,
//   - when the Rollout of policies changes, it queues their statuses,
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
	listen := newStoppedTimer()
	defer listen.Stop()
	lasted := newStoppedTimer()
	defer lasted.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reconciler.Terms.Started():
			s.beginTerm(ctx)
		case <-changes:
			began := time.Now() //nolint:forbidigo // the CPU time of this call
			s.refresh()
			changes = nil
			listen.Reset(refreshShare * time.Since(began))
		case <-listen.C:
			changes = s.reconciler.Publisher.Changes()
		case <-lasted.C:
		}
		if wait, ok := s.outage.observe(); ok {
			lasted.Reset(wait)
		}
	}
}

// newStoppedTimer returns a timer that only Reset starts.
func newStoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// beginTerm queues every policy.
func (s *signals) beginTerm(ctx context.Context) {
	r := s.reconciler
	t, leading := r.Terms.running()
	if !leading {
		return
	}
	r.initialPass.beginList(t)
	policies := r.allPolicies(ctx)
	r.compiled.retain(policies)
	r.statuses.beginTerm(t, policies)
	ctx, release := t.bind(ctx)
	defer release()
	if r.initialPass.begin(t, policies) {
		r.Publisher.MarkSynced(ctx)
		r.statuses.endInitialPass(t)
	}
	enqueueLowPriority(s.queue, sweep)
	enqueueLowPriority(s.queue, policies...)
}

// refresh queues the statuses and requests that changed Rollouts need.
func (s *signals) refresh() {
	r := s.reconciler
	registry := r.Publisher.Rollout("")
	writable := registry.Reachable && !registry.OwnedElsewhere
	if writable && !s.writable {
		enqueueLowPriority(s.queue, sweep)
	}
	s.writable = writable
	enqueueLowPriority(s.queue, r.statuses.refresh()...)
}
