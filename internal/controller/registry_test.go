// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// registry is an in-memory Publisher with its replicas. It fulfills the contract of
// the interface and can be put into every state of a real one.
type registry struct {
	changes chan struct{}

	mu             sync.Mutex
	unreachable    bool
	hung           bool // unreachable, but only the first call that waits notices
	unobserved     bool // the publisher has not read the registry yet in this term
	ownedElsewhere bool
	lost           bool // its plans are gone until MarkSynced
	writeDelay     time.Duration
	failNextWrite  bool // Redis answers, but one write fails
	revision       int
	records        map[string]entry
	wanted         map[string]plan.Record // nil: delete it
	waiting        map[string]plan.Record // without room
	asked          []string               // see Wanted
	shortage       *plan.OverBudget       // why; nil while there is room
	replicas       map[string]replica
	sets, sweeps   int
	synced         []int // see MarkSynced
}

type entry struct {
	record   plan.Record
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
		records:  map[string]entry{},
		wanted:   map[string]plan.Record{},
		waiting:  map[string]plan.Record{},
		replicas: map[string]replica{"one": {}},
	}
}

var (
	errUnreachable    = errors.New("unreachable")
	errOwnedElsewhere = errors.New("owned elsewhere")
	errWriteFailed    = errors.New("write failed")
)

func (r *registry) Set(ctx context.Context, p plan.Record, o plan.SetOptions) error {
	return r.record(ctx, func() error {
		r.sets++
		last := cmp.Or(r.waiting[p.ID()], r.wanted[p.ID()])
		if !o.Restored && isOlder(p, last) {
			return plan.ErrOlderGeneration
		}
		delete(r.waiting, p.ID())
		if r.shortage != nil && !o.WasProgrammed && sizeOf(p) > sizeOf(r.wanted[p.ID()]) {
			r.waiting[p.ID()] = p
			if o.DropLast {
				r.wanted[p.ID()] = nil
			}
			return nil
		}
		r.wanted[p.ID()] = p
		return nil
	})
}

// isOlder reports whether the record is an earlier one of the same object.
func isOlder(r, last plan.Record) bool {
	if last == nil {
		return false
	}
	uid, generation := r.Source()
	lastUID, lastGeneration := last.Source()
	return uid == lastUID && generation < lastGeneration
}

// sizeOf returns the size of the record, 0 for none.
func sizeOf(p plan.Record) int {
	if p == nil {
		return 0
	}
	data, err := plan.Encode(p)
	if err != nil {
		panic(err)
	}
	return len(data)
}

func (r *registry) Delete(ctx context.Context, id string) error {
	return r.record(ctx, func() error {
		r.wanted[id] = nil
		delete(r.waiting, id)
		return nil
	})
}

func (r *registry) Sweep(ctx context.Context, live func(ctx context.Context, id string) (bool, error)) error {
	candidates, err := r.unset(ctx)
	if err != nil {
		return err
	}
	var orphans []string
	for _, id := range candidates {
		isLive, err := live(ctx, id)
		if err != nil {
			return err
		}
		if !isLive {
			orphans = append(orphans, id)
		}
	}
	return r.record(ctx, func() error {
		for _, id := range orphans {
			if _, wanted := r.wanted[id]; !wanted {
				r.wanted[id] = nil
			}
		}
		return nil
	})
}

// unset returns the IDs that were neither set nor deleted in this term.
func (r *registry) unset(ctx context.Context) (ids []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweeps++
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if r.unreachable || r.unobserved {
		return nil, errUnreachable
	}
	if r.ownedElsewhere {
		return nil, errOwnedElsewhere
	}
	for id := range r.records {
		if _, wanted := r.wanted[id]; !wanted {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// record records a wanted plan and tries to write it.
func (r *registry) record(ctx context.Context, want func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writeDelay > 0 {
		r.mu.Unlock()
		time.Sleep(r.writeDelay)
		r.mu.Lock()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := want(); err != nil {
		return err
	}
	if r.hung && !r.unreachable {
		r.mu.Unlock()
		time.Sleep(noticeDelay)
		r.mu.Lock()
		r.unreachable = r.hung
		r.signal()
	}
	switch {
	case r.unreachable || r.unobserved:
		return errUnreachable
	case r.ownedElsewhere:
		return errOwnedElsewhere
	case r.lost:
		return nil
	case r.failNextWrite:
		r.failNextWrite = false
		return errWriteFailed
	}
	r.write()
	return nil
}

// noticeDelay is the timeout of a call to a hung registry.
const noticeDelay = 50 * time.Millisecond

func (r *registry) writable() bool {
	return !r.unreachable && !r.hung && !r.unobserved && !r.ownedElsewhere && !r.lost
}

// write writes all wanted plans and lets the replicas load them.
func (r *registry) write() {
	if !r.writable() {
		return
	}
	if r.shortage == nil {
		r.asked = slices.AppendSeq(r.asked, maps.Keys(r.waiting))
		clear(r.waiting)
	}
	for id, p := range r.wanted {
		switch {
		case p == nil && r.records[id].record != nil:
			r.revision++
			delete(r.records, id)
		case p != nil && !reflect.DeepEqual(r.records[id].record, p):
			r.revision++
			r.records[id] = entry{p, r.revision}
		}
	}
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
	if r.unobserved {
		return plan.Rollout{}
	}
	held := r.records[id]
	var shortage *plan.OverBudget
	if r.waiting[id] != nil {
		shortage = r.shortage
	}
	return plan.Rollout{
		OverBudget:     shortage,
		Reachable:      !r.unreachable,
		OwnedElsewhere: r.ownedElsewhere,
		Record:         held.record,
		HasReplicas:    len(r.replicas) > 0,
		AllReplicasCurrent: len(r.replicas) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(r.replicas)), func(one replica) bool {
			return one.revision < held.revision
		}),
	}
}

// MarkSynced records how many plans were desired before it.
func (r *registry) MarkSynced(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	wanted := 0
	for _, p := range r.wanted {
		if p != nil {
			wanted++
		}
	}
	r.synced = append(r.synced, wanted)
	r.lost = false
	r.write()
}

func (r *registry) Changes() <-chan struct{} { return r.changes }

func (r *registry) Wanted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

// The methods below are for the specs.

// beginTerm forgets what was wanted. Rollout is empty until the registry answers.
func (r *registry) beginTerm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.wanted)
	clear(r.waiting)
	r.asked = nil
	r.unobserved = r.hung || r.unreachable
}

// change changes the state of the registry, then writes the plans that are still
// wanted.
func (r *registry) change(to func(*registry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to(r)
	r.write()
	r.signal()
}

// recordOf returns what the registry holds under the ID, or nil.
func (r *registry) recordOf(id string) plan.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records[id].record
}

// plan returns the plan that the registry holds under the ID, or nil.
func (r *registry) plan(id string) *plan.Plan {
	p, _ := r.recordOf(id).(*plan.Plan)
	return p
}

func (r *registry) counts() (sets, sweeps int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sets, r.sweeps
}

// passes returns what MarkSynced has recorded.
func (r *registry) passes() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.synced)
}
