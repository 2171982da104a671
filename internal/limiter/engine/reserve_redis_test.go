// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store/denialcache"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
)

// The state of a key lists its open reservations, those that end first.
func TestInspectListsOpenReservations(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", reservable, keyed(apiKey)))
	g.Expect(r.inspect(t, "a/x", alice, plan.Attributes{}).Holds).To(BeEmpty())
	for i, ttl := range []time.Duration{3 * time.Minute, time.Minute} {
		request := reserve(int64(10+i), "a/x")
		request.ID, request.TTL = fmt.Sprint("r-", i), ttl
		_, err := r.Reserve(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
	}
	state := r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state.Open).To(Equal(int64(2)))
	g.Expect(state.Limits[0].Held).To(Equal(int64(21)))
	g.Expect(state.Holds).To(HaveLen(2))
	for i, want := range []limiter.OpenHold{{ID: "r-1", Units: 11, EndsIn: time.Minute}, {ID: "r-0", Units: 10, EndsIn: 3 * time.Minute}} {
		g.Expect(state.Holds[i].EndsIn).To(And(BeNumerically("<=", want.EndsIn), BeNumerically(">", want.EndsIn-30*time.Second)))
		state.Holds[i].EndsIn = want.EndsIn
		g.Expect(state.Holds[i]).To(Equal(want))
	}
	_, err := r.Reset(t.Context(), "a/x", alice)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.inspect(t, "a/x", alice, plan.Attributes{}).Open).To(BeZero(), "a reset drops them")
}

// A denial in memory, which holds while Redis does not answer, does not answer calls that are never
// denied.
func TestCachedDenialsAnswerNoCommits(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	client, err := redisclient.New(server.URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Minute})
	e := engine.New(engine.Options{
		Store: denialcache.New(store, time.Now), Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	e.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", reservable)}))
	d, err := e.Reserve(t.Context(), reserve(1, "a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = e.Commit(t.Context(), &limiter.Commit{Reservation: d.Reservation, Cost: 100})
	g.Expect(err).NotTo(HaveOccurred())
	denied, err := e.Decide(t.Context(), named("a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(denied.Allowed).To(BeFalse())
	server.Stop()
	denied, err = e.Decide(t.Context(), named("a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]any{denied.Allowed, denied.Degraded}).To(Equal([]any{false, plan.FailureMode("")}), "it is remembered")
	_, err = e.Commit(t.Context(), &limiter.Commit{Reservation: d.Reservation, Cost: 1})
	g.Expect(err).To(MatchError(limiter.ErrStoreUnavailable))
	_, err = e.Charge(t.Context(), &limiter.Charge{Check: *named("a/x")})
	g.Expect(err).To(MatchError(limiter.ErrStoreUnavailable))
}

// Many callers at once never spend more than the quota, if no request costs more than its estimate. Each
// commit is sent twice.
func TestReservationsNeverOverrunTheQuota(t *testing.T) {
	g := NewWithT(t)
	const most, callers, requests = 1000, 16, 40
	r := newOnRedis(t, makePlan("a/x", reservable, func(p *plan.Plan) {
		p.Limits[0].Threshold, p.Reservations.MaxOpen = most, 1000
	}))
	var spent, denied atomic.Int64
	var wait sync.WaitGroup
	for caller := range callers {
		wait.Go(func() {
			for i := range requests {
				estimate := int64(10 + (caller*7+i)%20)
				d, err := r.Reserve(t.Context(), reserve(estimate, "a/x"))
				if err != nil || !d.Allowed {
					denied.Add(1)
					continue
				}
				cost := estimate / 3
				for range 2 {
					if _, err := r.Commit(t.Context(), &limiter.Commit{Reservation: d.Reservation, Cost: cost}); err != nil {
						t.Error(err)
					}
				}
				spent.Add(cost)
			}
		})
	}
	wait.Wait()
	state := r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state.Limits[0].Used).To(And(Equal(spent.Load()), BeNumerically("<=", most)))
	g.Expect(state.Open).To(BeZero())
	g.Expect(denied.Load()).To(BeNumerically(">", 0), "the quota was reached")
}
