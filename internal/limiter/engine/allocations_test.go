// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"log/slog"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/testenv"
)

// admittingStore admits every call with one reply.
type admittingStore struct {
	engine.Store

	reply store.Reply
}

func (s *admittingStore) Evaluate(context.Context, *store.Call) (*store.Reply, error) {
	return &s.reply, nil
}

// A decision allocates itself and nothing else.
func TestDecisionsAllocateOnce(t *testing.T) {
	g := NewWithT(t)
	backend := &admittingStore{reply: store.Reply{Entries: []store.EntryReply{{Limits: []store.LimitReply{{Admits: true, Used: 1}}}}}}
	e := engine.New(engine.Options{Store: backend, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	e.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x",
		keyed(plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: "user"}),
		matching(plan.Match{Domain: "edge", Descriptors: []plan.EntryMatch{{Key: "user"}}}))}))
	check := &limiter.Check{
		Attributes: plan.Attributes{Domain: "edge", Descriptors: []plan.Descriptor{{{Key: "user", Value: "alice"}}}},
		Hits:       []limiter.Hits{{Cost: 1}},
	}
	g.Expect(testenv.FewestAllocations(func() {
		if d, err := e.Decide(t.Context(), check); err != nil || !d.Allowed || len(d.Descriptors) != 1 {
			t.Error(d, err)
		}
	})).To(BeNumerically("<=", 1))
}
