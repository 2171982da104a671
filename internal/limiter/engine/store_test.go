// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
)

// testStore is a memory.Store with a clock that stands still. It answers one call at a time.
type testStore struct {
	engine.Store

	sync.Mutex

	now  time.Time
	draw uint32 // of the engine
	low  bool   // on memory, where a test lets it be
	err  error  // in place of replies, unless nil
	// around decides in place of evaluate, which it may call; nil is evaluate.
	around func(evaluate func() (*store.Reply, error), call *store.Call) (*store.Reply, error)

	given    *store.Call // the last call
	last     *store.Call // a copy of it
	canceled bool        // its context was canceled
}

func newTestStore() *testStore {
	s := &testStore{now: time.UnixMicro(1_900_000_000_123_456)}
	s.empty()
	return s
}

// empty removes all states.
func (s *testStore) empty() {
	s.Store = memory.NewStore(memory.Options{Keys: 100_000, Now: func() time.Time { return s.now }})
}

func (s *testStore) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	s.Lock()
	defer s.Unlock()
	s.canceled, s.given = ctx.Err() != nil, call
	s.last = &store.Call{Entries: slices.Clone(call.Entries), Denied: call.Denied, Draw: call.Draw, Uncached: call.Uncached}
	evaluate := func() (*store.Reply, error) {
		if s.err != nil {
			return nil, s.err
		}
		return s.Store.Evaluate(ctx, call)
	}
	if s.around != nil {
		return s.around(evaluate, call)
	}
	return evaluate()
}

func (s *testStore) Reset(ctx context.Context, policy *store.Policy, key store.Key) (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	return s.Store.Reset(ctx, policy, key)
}

func (s *testStore) Unblock(ctx context.Context, policy *store.Policy, key store.Key) (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	return s.Store.Unblock(ctx, policy, key)
}

// during calls the function in each call.
func (s *testStore) during(do func()) {
	s.around = func(evaluate func() (*store.Reply, error), _ *store.Call) (*store.Reply, error) {
		do()
		return evaluate()
	}
}

// changeReplies changes the replies.
func (s *testStore) changeReplies(change func(*store.Reply)) {
	s.around = func(evaluate func() (*store.Reply, error), _ *store.Call) (*store.Reply, error) {
		reply, err := evaluate()
		if reply != nil {
			change(reply)
		}
		return reply, err
	}
}

// loseReplies loses the replies of calls that are decided.
func (s *testStore) loseReplies() {
	s.around = func(evaluate func() (*store.Reply, error), _ *store.Call) (*store.Reply, error) {
		_, _ = evaluate()
		return nil, lost()
	}
}

// failWith lets all calls with the policy fail, and counts all calls.
func (s *testStore) failWith(policy string, err error) (calls *int) {
	calls = new(int)
	s.around = func(evaluate func() (*store.Reply, error), call *store.Call) (*store.Reply, error) {
		*calls++
		if slices.ContainsFunc(call.Entries, func(e store.Entry) bool { return e.Policy.ID() == policy }) {
			return nil, err
		}
		return evaluate()
	}
	return calls
}
