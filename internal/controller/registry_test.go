// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// registry is an in-memory Publisher with its replicas. It fulfills the contract of
// the interface and can be put into every state of a real one.
type registry struct {
	changes chan struct{}

	mu             sync.Mutex
	unreachable    bool
	ownedElsewhere bool
	failNextWrite  bool // Redis answers, but one write fails
	revision       int
	plans          map[string]entry
	wanted         map[string]*plan.Plan // nil: delete it
	replicas       map[string]replica
	sets, sweeps   int
	synced         []int // see MarkSynced
}

type entry struct {
	plan     *plan.Plan
	revision int
}

type replica struct {
	revision int
	stuck    bool
}

var _ controller.Publisher = (*registry)(nil)

// newRegistry returns a registry with one replica.
func newRegistry() *registry {
	return &registry{
		changes:  make(chan struct{}, 1),
		plans:    map[string]entry{},
		wanted:   map[string]*plan.Plan{},
		replicas: map[string]replica{"one": {}},
	}
}

var (
	errUnreachable    = errors.New("unreachable")
	errOwnedElsewhere = errors.New("owned elsewhere")
	errWriteFailed    = errors.New("write failed")
)

func (r *registry) Set(ctx context.Context, p *plan.Plan) error {
	return r.record(ctx, func() {
		r.sets++
		r.wanted[p.ID()] = p
	})
}

func (r *registry) Delete(ctx context.Context, id string) error {
	return r.record(ctx, func() { r.wanted[id] = nil })
}

func (r *registry) Sweep(ctx context.Context, live func(id string) bool) error {
	return r.record(ctx, func() {
		r.sweeps++
		for id := range r.plans {
			if _, wanted := r.wanted[id]; !wanted && !r.unreachable && !r.ownedElsewhere && !live(id) {
				r.wanted[id] = nil
			}
		}
	})
}

// record records a wanted plan and tries to write it.
func (r *registry) record(ctx context.Context, want func()) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	want()
	switch {
	case r.unreachable:
		return errUnreachable
	case r.ownedElsewhere:
		return errOwnedElsewhere
	case r.failNextWrite:
		r.failNextWrite = false
		return errWriteFailed
	}
	r.write()
	return nil
}

// write writes all wanted plans and lets the replicas load them.
func (r *registry) write() {
	if r.unreachable || r.ownedElsewhere {
		return
	}
	for id, p := range r.wanted {
		switch {
		case p == nil && r.plans[id].plan != nil:
			r.revision++
			delete(r.plans, id)
		case p != nil && r.plans[id].plan != p:
			r.revision++
			r.plans[id] = entry{p, r.revision}
		}
	}
	maps.DeleteFunc(r.wanted, func(_ string, p *plan.Plan) bool { return p == nil })
	for name, one := range r.replicas {
		if !one.stuck {
			r.replicas[name] = replica{revision: r.revision}
		}
	}
	r.signal()
}

func (r *registry) signal() {
	select {
	case r.changes <- struct{}{}:
	default:
	}
}

func (r *registry) Rollout(id string) plan.Rollout {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.plans[id]
	return plan.Rollout{
		Reachable:      !r.unreachable,
		OwnedElsewhere: r.ownedElsewhere,
		Plan:           held.plan,
		HasReplicas:    len(r.replicas) > 0,
		AllReplicasCurrent: len(r.replicas) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(r.replicas)), func(one replica) bool {
			return one.revision < held.revision
		}),
	}
}

// MarkSynced records how many policies were set or deleted before it.
func (r *registry) MarkSynced() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced = append(r.synced, len(r.wanted))
}

func (r *registry) Changes() <-chan struct{} { return r.changes }

// The methods below are for the specs.

// change changes the state of the registry, then writes the plans that are still
// wanted.
func (r *registry) change(to func(*registry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to(r)
	r.write()
	r.signal()
}

// plan returns what the registry holds under the ID, or nil.
func (r *registry) plan(id string) *plan.Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plans[id].plan
}

func (r *registry) counts() (sets, sweeps int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sets, r.sweeps
}
