// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// The promise of each algorithm holds at every moment of real, concurrent
// traffic that offers far more than it admits, from one to four stores.
func TestPromisesUnderConcurrency(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			const most = 20
			const window, bucket = 40 * time.Millisecond, 4 * time.Millisecond
			server := on.start(t)
			for name, tc := range map[string]struct {
				limit   store.Limit
				promise func(*WithT, []storetest.Hit)
			}{
				"FixedWindow admits exactly its quota in every window": {
					// Longer, so that a busy machine fills every window, too.
					store.Limit{Algorithm: store.FixedWindow, Quota: most, Threshold: most, Window: 4 * window},
					func(g *WithT, hits []storetest.Hit) { expectFullWindows(g, hits, most, 4*window) },
				},
				"SlidingLog admits no more than its quota in any interval": {
					store.Limit{Algorithm: store.SlidingLog, Quota: most, Threshold: most, Window: window},
					func(g *WithT, hits []storetest.Hit) { storetest.ExpectEveryInterval(g, hits, most, window) },
				},
				"SlidingWindow admits no more than its quota in any interval": {
					store.Limit{Algorithm: store.SlidingWindow, Quota: most, Threshold: most, Window: window, Bucket: bucket},
					func(g *WithT, hits []storetest.Hit) { storetest.ExpectEveryInterval(g, hits, most, window) },
				},
				"TokenBucket admits no more than capacity plus refill": {
					store.Limit{Algorithm: store.TokenBucket, Quota: 7, Threshold: most, Window: window},
					func(g *WithT, hits []storetest.Hit) { storetest.ExpectRefill(g, hits, 7, most, window) },
				},
				"GCRA admits no more than its burst plus what the spacing allows": {
					store.Limit{Algorithm: store.GCRA, Quota: 1, Threshold: most, Window: window},
					func(g *WithT, hits []storetest.Hit) { storetest.ExpectRefill(g, hits, 1, most, window) },
				},
				"Suppressed admits no more than its hard limit in any interval": {
					store.Limit{Algorithm: store.Suppressed, Quota: most, Threshold: most, HardQuota: 30, Window: window, Bucket: bucket},
					func(g *WithT, hits []storetest.Hit) { storetest.ExpectEveryInterval(g, hits, 30, window) },
				},
			} {
				t.Run(name, func(t *testing.T) {
					for stores := 1; stores <= 4; stores++ {
						tc.limit.Name = fmt.Sprintf("l%d", stores)
						hits := admittedHits(t, server, stores, tc.limit)
						g := NewWithT(t)
						g.Expect(len(hits)).To(BeNumerically(">", 2*most), "several windows were filled")
						tc.promise(g, hits)
					}
				})
			}
		})
	}
}

// admittedHits sends checks as fast as it can until the quotas of six windows are admitted. It returns the
// admitted checks with their times on the clock of Redis, from the log of a second limit that admits everything.
func admittedHits(t *testing.T, server *testenv.Redis, stores int, limit store.Limit) []storetest.Hit {
	t.Helper()
	g := NewWithT(t)
	observer := newClient(t, server.Addr)
	id := fmt.Sprintf("test/%s-%d", limit.Algorithm, stores)
	keeps := store.Limit{Name: "keeps", Algorithm: store.SlidingLog, Quota: 100_000, Threshold: 100_000, Window: time.Hour}
	tested, keeper := store.NewPolicy(id, false, false, []store.Limit{limit}), store.NewPolicy(id+"-keeper", false, false, []store.Limit{keeps})
	var passed atomic.Int64
	unfilled := func() bool { return passed.Load() < 6*limit.Threshold }
	admitted := storetest.Concurrently(newReplicas(server).Open(t, stores), unfilled, func(s storetest.Evaluator) bool {
		call := &store.Call{Draw: rand.Uint32(), Entries: []store.Entry{
			{Policy: tested, Key: "a", Cost: 1}, {Policy: keeper, Key: "a", Cost: 1},
		}}
		reply, err := s.Evaluate(t.Context(), call)
		if err != nil || reply.Entries[0].Verdict != store.Admitted {
			return false
		}
		passed.Add(1)
		return true
	})
	log, err := observer.LRange(t.Context(), testPrefix+layoutVersion+"{a}:"+id+"-keeper:sl", 0, -1).Result()
	g.Expect(err).NotTo(HaveOccurred())
	var hits []storetest.Hit
	for i := 1; i < len(log); i += 2 {
		at, err := strconv.ParseInt(log[i], 10, 64)
		g.Expect(err).NotTo(HaveOccurred())
		hits = append(hits, storetest.Hit{At: at, Cost: 1})
	}
	g.Expect(hits).To(HaveLen(admitted))
	return hits
}

// expectFullWindows expects the quota in every window but the last.
func expectFullWindows(g *WithT, hits []storetest.Hit, most int64, window time.Duration) {
	units := storetest.UnitsOfWindows(hits, window)
	last := len(units) - 1
	g.Expect(units[:last]).To(HaveEach(most))
	g.Expect(units[last]).To(BeNumerically("<=", most))
}

// The window of FixedWindow starts with the first unit, and no later check extends it.
func TestFixedWindowIsNeverExtended(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			g := NewWithT(t)
			server := on.start(t)
			observer := newClient(t, server.Addr)
			policy := store.NewPolicy("test/fixed", false, false, []store.Limit{
				{Name: "l", Algorithm: store.FixedWindow, Quota: 50, Threshold: 50, Window: time.Hour},
			})
			key := testPrefix + layoutVersion + "{a}:test/fixed:l:fw:1h"
			check := func(s storetest.Evaluator) bool {
				_, err := s.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1}}})
				return err == nil
			}
			check(newStore(observer))
			end := observer.Do(t.Context(), "PEXPIRETIME", key).Val()
			storetest.Concurrently(newReplicas(server).Open(t, 4), storetest.Times(200), check)
			g.Expect(observer.Do(t.Context(), "PEXPIRETIME", key).Val()).To(Equal(end))
		})
	}
}
