// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// BenchmarkDecide measures decisions on a real Redis, from 64 concurrent callers over 10,000
// keys, for each algorithm with one limit and with four.
func BenchmarkDecide(b *testing.B) {
	for _, algorithm := range []plan.Algorithm{
		plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow, plan.TokenBucket, plan.GCRA, plan.Suppressed,
	} {
		for _, n := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/limits=%d", algorithm, n), func(b *testing.B) {
				p := makePlan("a/x", keyed(apiKey), func(p *plan.Plan) {
					p.Limits = nil
					for i := range n {
						l := three(algorithm)
						l.Name, l.Threshold = fmt.Sprintf("l%d", i), 50_000
						p.Limits = append(p.Limits, l)
					}
				})
				r := newOnRedis(b, p)
				b.ReportAllocs()
				b.SetParallelism(32)
				b.RunParallel(func(pb *testing.PB) {
					g := NewWithT(b)
					for pb.Next() {
						_, err := r.Decide(b.Context(), &limiter.Check{
							Policies: []string{"a/x"}, Cost: 1,
							Attributes: withKey(fmt.Sprintf("user-%d", rand.IntN(10_000))),
						})
						g.Expect(err).NotTo(HaveOccurred())
					}
				})
			})
		}
	}
}

// BenchmarkDecideAlone measures decisions without a store, by the number of policies that apply.
func BenchmarkDecideAlone(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			backend := &admittingStore{}
			var plans []*plan.Plan
			for i := range n {
				plans = append(plans, makePlan(fmt.Sprintf("a/p%02d", i), matching(plan.Match{Domain: "edge"})))
				backend.reply.Entries = append(backend.reply.Entries, store.EntryReply{Limits: []store.LimitReply{{Admits: true, Used: 1}}})
			}
			e := engine.New(engine.Options{Store: backend, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
			e.Use(index.NewSnapshot(1, plans))
			check := &limiter.Check{Cost: 1, Attributes: plan.Attributes{Domain: "edge"}}
			b.ReportAllocs()
			for b.Loop() {
				if d, err := e.Decide(b.Context(), check); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			}
		})
	}
}
