// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/denialcache"
	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/internal/limiter/storetest"
	"github.com/weir-dev/weir/internal/testenv"
)

// Of 400 parallel checks on one key with a quota of 100, from one to four stores, exactly
// 100 are admitted, for each algorithm.
func TestQuotaIsExactUnderConcurrency(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			server := on.start(t)
			for _, algorithm := range algorithms {
				t.Run(string(algorithm), func(t *testing.T) {
					for stores := 1; stores <= 4; stores++ {
						policy := quota.NewPolicy(fmt.Sprintf("test/%s-%d", algorithm, stores), false, false, []quota.Limit{storetest.SlowLimit(algorithm, 100)})
						admitted := concurrently(t, server, stores, times(400), admits(t, policy))
						NewWithT(t).Expect(admitted).To(Equal(100))
					}
				})
			}
		})
	}
}

// admits returns a function that sends a check by one caller, and reports whether it is
// admitted.
func admits(t *testing.T, policy *quota.Policy) func(evaluator) bool {
	t.Helper()
	return func(s evaluator) bool {
		reply, err := s.Evaluate(t.Context(), &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: "a", Cost: 1}}})
		return err == nil && reply.Entries[0].Verdict == quota.Admitted
	}
}

// A chain is charged as a whole or not at all, under concurrency and for every pair of
// algorithms.
func TestChainsAreAllOrNothingUnderConcurrency(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			server := on.start(t)
			store := newStore(newClient(t, server.Addr))
			for i, algorithm := range algorithms {
				other := algorithms[(i+1)%len(algorithms)]
				t.Run(fmt.Sprintf("%s with %s", algorithm, other), func(t *testing.T) {
					g := NewWithT(t)
					wide := quota.NewPolicy(fmt.Sprintf("test/wide%d", i), false, false, []quota.Limit{storetest.SlowLimit(algorithm, 90)})
					tight := quota.NewPolicy(fmt.Sprintf("test/tight%d", i), false, false, []quota.Limit{storetest.SlowLimit(other, 40)})
					onWide, onTight := chargeChains(t, server, wide, tight)
					reply, err := store.Evaluate(t.Context(), &quota.Call{Entries: []quota.Entry{
						{Policy: wide, Key: "a", Peek: true}, {Policy: tight, Key: "a", Peek: true},
					}})
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(onWide))
					g.Expect(reply.Entries[1].Limits[0].Used).To(Equal(onTight))
					g.Expect(onWide).To(BeNumerically(">", 85))
					g.Expect(onTight).To(BeNumerically(">", 0))
				})
			}
		})
	}
}

// chargeChains sends random chains of the two policies in parallel and returns the cost of
// the admitted ones for each policy.
func chargeChains(t *testing.T, server *testenv.Redis, wide, tight *quota.Policy) (onWide, onTight int64) {
	t.Helper()
	chains := [][]quota.Entry{
		{{Policy: wide, Key: "a", Cost: 1}, {Policy: tight, Key: "a", Cost: 1}},
		{{Policy: tight, Key: "a", Cost: 2}, {Policy: wide, Key: "a", Cost: 1}},
		{{Policy: wide, Key: "a", Cost: 3}},
	}
	var mu sync.Mutex
	concurrently(t, server, 4, times(400), func(s evaluator) bool {
		call := &quota.Call{Entries: chains[rand.IntN(len(chains))]}
		reply, err := s.Evaluate(t.Context(), call)
		if err != nil || slices.ContainsFunc(reply.Entries, func(e quota.EntryReply) bool { return e.Verdict != quota.Admitted }) {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range call.Entries {
			if e.Policy == wide {
				onWide += e.Cost
			} else {
				onTight += e.Cost
			}
		}
		return true
	})
	return onWide, onTight
}

// The promise of each algorithm holds at every moment of real, concurrent
// traffic that offers far more than it admits, from one to four stores.
func TestPromisesUnderConcurrency(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			const most = 20
			const window, bucket = 40 * time.Millisecond, 4 * time.Millisecond
			server := on.start(t)
			for name, tc := range map[string]struct {
				limit quota.Limit
				holds func(*WithT, []int64)
			}{
				"FixedWindow admits exactly its quota in every window": {
					// Longer, so that a busy machine fills every window, too.
					quota.Limit{Algorithm: quota.FixedWindow, Quota: most, Threshold: most, Window: 4 * window},
					func(g *WithT, stamps []int64) { expectFullWindows(g, stamps, most, 4*window) },
				},
				"SlidingLog admits no more than its quota in any interval": {
					quota.Limit{Algorithm: quota.SlidingLog, Quota: most, Threshold: most, Window: window},
					func(g *WithT, stamps []int64) { expectEveryInterval(g, stamps, most, window) },
				},
				"SlidingWindow admits no more than its quota in any interval": {
					quota.Limit{Algorithm: quota.SlidingWindow, Quota: most, Threshold: most, Window: window, Bucket: bucket},
					func(g *WithT, stamps []int64) { expectEveryInterval(g, stamps, most, window) },
				},
				"TokenBucket admits no more than capacity plus refill": {
					quota.Limit{Algorithm: quota.TokenBucket, Quota: 7, Threshold: most, Window: window},
					func(g *WithT, stamps []int64) { expectRefill(g, stamps, 7, most, window) },
				},
				"GCRA admits no more than its burst plus what the spacing allows": {
					quota.Limit{Algorithm: quota.GCRA, Quota: 1, Threshold: most, Window: window},
					func(g *WithT, stamps []int64) { expectRefill(g, stamps, 1, most, window) },
				},
				"Suppressed admits no more than its hard limit in any interval": {
					quota.Limit{Algorithm: quota.Suppressed, Quota: most, Threshold: most, HardQuota: 30, Window: window, Bucket: bucket},
					func(g *WithT, stamps []int64) { expectEveryInterval(g, stamps, 30, window) },
				},
			} {
				t.Run(name, func(t *testing.T) {
					for stores := 1; stores <= 4; stores++ {
						tc.limit.Name = fmt.Sprintf("l%d", stores)
						stamps := admittedStamps(t, server, stores, tc.limit)
						g := NewWithT(t)
						g.Expect(len(stamps)).To(BeNumerically(">", 2*most), "several windows were filled")
						tc.holds(g, stamps)
					}
				})
			}
		})
	}
}

// admittedStamps sends checks as fast as it can until the quotas of six windows are
// admitted. It returns the times of the admitted checks in
// Redis server time, from the log of a second limit that admits everything.
func admittedStamps(t *testing.T, server *testenv.Redis, stores int, limit quota.Limit) []int64 {
	t.Helper()
	g := NewWithT(t)
	observer := newClient(t, server.Addr)
	id := fmt.Sprintf("test/%s-%d", limit.Algorithm, stores)
	keeps := quota.Limit{Name: "keeps", Algorithm: quota.SlidingLog, Quota: 100_000, Threshold: 100_000, Window: time.Hour}
	tested, keeper := quota.NewPolicy(id, false, false, []quota.Limit{limit}), quota.NewPolicy(id+"-keeper", false, false, []quota.Limit{keeps})
	var passed atomic.Int64
	unfilled := func() bool { return passed.Load() < 6*limit.Threshold }
	admitted := concurrently(t, server, stores, unfilled, func(s evaluator) bool {
		call := &quota.Call{Draw: rand.Uint32(), Entries: []quota.Entry{
			{Policy: tested, Key: "a", Cost: 1}, {Policy: keeper, Key: "a", Cost: 1},
		}}
		reply, err := s.Evaluate(t.Context(), call)
		if err != nil || reply.Entries[0].Verdict != quota.Admitted {
			return false
		}
		passed.Add(1)
		return true
	})
	log, err := observer.LRange(t.Context(), testPrefix+layoutVersion+"{a}:"+id+"-keeper:sl", 0, -1).Result()
	g.Expect(err).NotTo(HaveOccurred())
	var stamps []int64
	for i := 1; i < len(log); i += 2 {
		at, err := strconv.ParseInt(log[i], 10, 64)
		g.Expect(err).NotTo(HaveOccurred())
		stamps = append(stamps, at)
	}
	g.Expect(stamps).To(HaveLen(admitted))
	return stamps
}

// expectEveryInterval expects at most the given number of stamps in any interval of that
// length.
func expectEveryInterval(g *WithT, stamps []int64, most int, length time.Duration) {
	for i := range stamps[most:] {
		g.Expect(stamps[i+most] - stamps[i]).To(BeNumerically(">=", length.Microseconds()))
	}
}

// expectFullWindows expects quota stamps in every window but the last. A window starts
// with the first stamp after the window before.
func expectFullWindows(g *WithT, stamps []int64, most int, window time.Duration) {
	for len(stamps) > 0 {
		end := (stamps[0]/1000 + window.Milliseconds()) * 1000
		inside, _ := slices.BinarySearch(stamps, end)
		if inside < len(stamps) {
			g.Expect(inside).To(Equal(most))
		}
		g.Expect(inside).To(BeNumerically("<=", most))
		stamps = stamps[inside:]
	}
}

// expectRefill expects that no interval holds more stamps than capacity plus its refill: a
// bucket that is drained at the stamps and refilled in between is never overdrawn.
func expectRefill(g *WithT, stamps []int64, capacity, rate int64, window time.Duration) {
	var missing int64
	for i, at := range stamps {
		if i > 0 {
			missing = max(0, missing-(at-stamps[i-1])*rate)
		}
		missing += window.Microseconds()
		g.Expect(missing).To(BeNumerically("<=", capacity*window.Microseconds()))
	}
}

// The window of FixedWindow starts with the first unit, and no later check extends it.
func TestFixedWindowIsNeverExtended(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			g := NewWithT(t)
			server := on.start(t)
			observer := newClient(t, server.Addr)
			policy := quota.NewPolicy("test/fixed", false, false, []quota.Limit{
				{Name: "l", Algorithm: quota.FixedWindow, Quota: 50, Threshold: 50, Window: time.Hour},
			})
			key := testPrefix + layoutVersion + "{a}:test/fixed:l:fw:1h"
			check := func(s evaluator) bool {
				_, err := s.Evaluate(t.Context(), &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: "a", Cost: 1}}})
				return err == nil
			}
			check(newStore(observer))
			end := observer.Do(t.Context(), "PEXPIRETIME", key).Val()
			concurrently(t, server, 4, times(200), check)
			g.Expect(observer.Do(t.Context(), "PEXPIRETIME", key).Val()).To(Equal(end))
		})
	}
}

// evaluator is what Store and denialcache.Cache have in common.
type evaluator interface {
	Evaluate(ctx context.Context, call *quota.Call) (*quota.Reply, error)
}

// concurrently calls check while there is more to do, from goroutines over the given number of
// replicas, each with its own connections and its own cache of denials. It returns how many calls
// were true.
func concurrently(t *testing.T, server *testenv.Redis, replicas int, more func() bool, check func(evaluator) bool) int {
	t.Helper()
	const goroutines = 64 // each replica; more than a batch
	var wg sync.WaitGroup
	var passed atomic.Int64
	for range replicas {
		cache := denialcache.New(newStore(newClient(t, server.Addr)), time.Now)
		for range goroutines {
			wg.Go(func() {
				for more() {
					if check(cache) {
						passed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return int(passed.Load())
}

// times returns a function that returns true n times.
func times(n int64) func() bool {
	var calls atomic.Int64
	return func() bool { return calls.Add(1) <= n }
}
