// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// operated counts the changes by operators, of keys. The first one fails if fails is true.
type operated struct {
	engine.Store

	fails   bool
	changes atomic.Int64
}

// blockList counts the changes by operators, of the lists of blocks. It fails if it has no blocks.
type blockList struct {
	engine.Observer

	changes atomic.Int64
	blocks  []store.Block
}

func (o *operated) change() error {
	if o.changes.Add(1) == 1 && o.fails {
		return lost()
	}
	return nil
}

func (o *operated) Reset(context.Context, *store.Policy, store.Key) (bool, error) {
	return true, o.change()
}

func (o *operated) Unblock(_ context.Context, _ *store.Policy, key store.Key) (bool, error) {
	return key != "gone", o.change()
}

func (o *operated) Block(context.Context, *store.Policy, store.Key, time.Duration) error {
	return o.change()
}

func (l *blockList) AddBlock(context.Context, string, store.Key, time.Duration) error {
	l.changes.Add(1)
	return nil
}

func (l *blockList) RemoveBlock(context.Context, string, store.Key) error {
	l.changes.Add(1)
	return nil
}

func (l *blockList) BlockedKeys(context.Context, string, int) ([]store.Block, error) {
	if l.blocks == nil {
		return nil, lost()
	}
	return l.blocks, nil
}

// newOperated returns an engine that only operators can call, with the policy a/x.
func newOperated(o *operated, observer engine.Observer, edits ...func(*plan.Plan)) *engine.Engine {
	e := engine.New(engine.Options{
		Store: o, Observer: observer, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	e.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", edits...)}))
	return e
}

// A change that fails is reported, although the change of the candidate would succeed, and changes no list.
func TestFailedChangesOfKeys(t *testing.T) {
	for _, name := range []string{"reset", "block", "unblock"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o, l := &operated{fails: true}, &blockList{}
			call := stateCalls(newOperated(o, l, trying(2)))[name]
			_, failed := errors.AsType[*store.Error](call(t.Context(), "a/x", alice))
			g.Expect(failed).To(BeTrue())
			g.Expect([]int64{o.changes.Load(), l.changes.Load()}).To(Equal([]int64{1, 0}))
			g.Expect(call(t.Context(), "a/x", alice)).To(Succeed())
			g.Expect([]int64{o.changes.Load(), l.changes.Load()}).To(Equal([]int64{3, 1}), "also of the candidate")
		})
	}
}

func TestUnblockAll(t *testing.T) {
	g := NewWithT(t)
	l := &blockList{blocks: []store.Block{{Key: "alice"}, {Key: "gone"}, {Key: "bob"}}}
	e := newOperated(&operated{}, l)
	g.Expect(e.UnblockAll(t.Context(), "a/x")).To(Equal(2), "one block has ended meanwhile")
	g.Expect(l.changes.Load()).To(Equal(int64(3)))
	_, err := e.UnblockAll(t.Context(), "a/y")
	g.Expect(err).To(MatchError(&limiter.UnknownPolicyError{Policy: "a/y"}))
	g.Expect(newOperated(&operated{}, nil).UnblockAll(t.Context(), "a/x")).To(BeZero(), "nothing is listed")

	_, err = newOperated(&operated{fails: true}, l).UnblockAll(t.Context(), "a/x")
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	_, err = newOperated(&operated{}, &blockList{}).UnblockAll(t.Context(), "a/x")
	g.Expect(err).To(MatchError(context.DeadlineExceeded), "the list cannot be read")
	_, err = newFixture().UnblockAll(t.Context(), "a/x")
	g.Expect(err).To(MatchError(limiter.ErrNotReady))
}

// hashed resolves the hash "h" to a key.
type hashed struct {
	engine.Observer

	key store.Key
	err error
}

func (h *hashed) Resolve(context.Context, string, string) (store.Key, error) { return h.key, h.err }

// A key that is given by its hash is the listed one, with its override.
func TestStateOfAListedKey(t *testing.T) {
	g := NewWithT(t)
	h := &hashed{key: store.EncodeKey("a|b")}
	e := observed(t, h, makePlan("a/x", keyed(apiKey), overridden(allow(keys("a|b")))))
	hash := limiter.KeyName{Hash: "h"}
	state, err := e.Inspect(t.Context(), "a/x", hash, plan.Attributes{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state.Override).To(Equal("allowed"))

	for _, unlisted := range []*engine.Engine{observed(t, &hashed{}, makePlan("a/x")), observed(t, nil, makePlan("a/x"))} {
		_, err = unlisted.Inspect(t.Context(), "a/x", hash, plan.Attributes{})
		g.Expect(err).To(MatchError(&limiter.UnknownKeyError{Policy: "a/x", Hash: "h"}))
	}
	_, err = observed(t, &hashed{err: lost()}, makePlan("a/x")).Inspect(t.Context(), "a/x", hash, plan.Attributes{})
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
}

// A block of failureMode Local is lifted with that in Redis.
func TestUnblockAllInMemory(t *testing.T) {
	g := NewWithT(t)
	local := &operated{}
	e := engine.New(engine.Options{
		Store: &operated{}, Local: local, Observer: &blockList{blocks: []store.Block{{Key: "alice"}}},
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	e.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x")}))
	g.Expect(e.UnblockAll(t.Context(), "a/x")).To(Equal(1))
	g.Expect(local.changes.Load()).To(Equal(int64(1)))
}
