// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// cancelDuring cancels a context while the store decides the first call.
func (s *testStore) cancelDuring(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.around = func(evaluate func() (*store.Reply, error), _ *store.Call) (*store.Reply, error) {
		cancel()
		return evaluate()
	}
	return ctx
}

// A caller that has canceled never learns of its reservation, so it must not stay open.
func TestReservesOfCanceledCallersAreWithdrawn(t *testing.T) {
	withID := reserve(3, "a/x")
	withID.ID = "r-1"
	byHits := hitting(limiter.Hits{Cost: 3, Action: limiter.HitsReserve})
	for name, tc := range map[string]struct {
		call func(ctx context.Context, f *fixture) error
		open bool
	}{
		"a reserve": {func(ctx context.Context, f *fixture) error {
			_, err := f.Reserve(ctx, reserve(3, "a/x"))
			return err
		}, false},
		"hits of Envoy": {func(ctx context.Context, f *fixture) error {
			_, err := f.Decide(ctx, byHits)
			return err
		}, false},
		"a reserve that the caller can repeat": {func(ctx context.Context, f *fixture) error {
			_, err := f.Reserve(ctx, withID)
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", byUser, reservable, trying(5)))
			err := tc.call(f.store.cancelDuring(t), f)
			f.AwaitBackground()
			f.store.around = nil
			if tc.open {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{3, 3}))
				return
			}
			g.Expect(err).To(MatchError(context.Canceled))
			g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{0, 0}))
			g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP weir_reservations_total Outcomes of reservations, counted once per policy and key.
# TYPE weir_reservations_total counter
weir_reservations_total{namespace="a",outcome="cancelled",policy="x"} 1
weir_reservations_total{namespace="a",outcome="reserved",policy="x"} 1
`), "weir_reservations_total")).To(Succeed())
		})
	}
}

// The deadline of the caller still bounds the wait for Redis.
func TestReservesKeepTheDeadline(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable, mode(plan.ModeEnforce)))
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err := f.Reserve(ctx, reserve(3, "a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.store.canceled).To(BeTrue(), "the context of the store has ended")
}
