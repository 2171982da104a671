// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// initialPass tracks the objects of one kind that a new term has not processed yet.
type initialPass struct {
	mu     sync.Mutex
	term   int64
	listed map[reconcile.Request]bool // all of the term; whether it is pending
	left   int
}

// beginList must be called before the term lists the objects.
func (p *initialPass) beginList(t term) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term, p.listed, p.left = t.number, nil, 0
}

// begin starts the pass over the listed objects. It reports whether the pass is complete at
// once, because the list is empty. It does nothing once a later term has begun to list.
func (p *initialPass) begin(t term, objects []reconcile.Request) (complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.number < p.term {
		return false
	}
	p.term, p.listed, p.left = t.number, make(map[reconcile.Request]bool, len(objects)), len(objects)
	for _, object := range objects {
		p.listed[object] = true
	}
	return p.left == 0
}

// done records an object that was processed in the term, and reports whether it completed the
// pass. An object that an earlier term processed stays pending.
func (p *initialPass) done(t term, object reconcile.Request) (complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.listed[object] || p.term != t.number || t.ended() {
		return false
	}
	p.listed[object] = false
	p.left--
	return p.left == 0
}

// isPending reports whether the term has not processed the object yet, or has not listed the
// objects.
func (p *initialPass) isPending(t term, object reconcile.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.term != t.number || p.listed == nil || p.listed[object]
}

// misses reports whether the term has listed the objects without this one, which the cache
// holds. While the list is being made, it may miss any.
func (p *initialPass) misses(t term, object client.Object) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, listed := p.listed[reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}]
	return p.term == t.number && !listed
}

// syncedKinds tracks the kinds whose objects were all processed in a term.
type syncedKinds struct {
	mu   sync.Mutex
	term int64
	done map[plan.Kind]bool
}

// add records a kind and reports whether it is the last one.
func (s *syncedKinds) add(t term, k *kind, all int) (complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != t.number {
		s.term, s.done = t.number, map[plan.Kind]bool{}
	}
	if s.done[k.record] {
		return false
	}
	s.done[k.record] = true
	return len(s.done) == all
}
