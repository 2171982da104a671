// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

// 400 parallel checks on one key, from four stores with connections of their
// own, with a threshold of 100: exactly 100 pass, for each algorithm.
func TestExactUnderConcurrency(t *testing.T) {
	server := testenv.StartRedis(t)
	for _, algorithm := range algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			for round := range 5 {
				policy := NewPolicy(fmt.Sprintf("test/%s-%d", algorithm, round), false, false, []Limit{
					{Name: "l", Algorithm: algorithm, Quota: 100, Threshold: 100, Window: time.Hour},
				})
				admitted := concurrently(t, server, 4, 400, func(s *Store) bool {
					reply, err := s.Evaluate(t.Context(), &Call{Entries: []Entry{{Policy: policy, Key: "alice", Cost: 1}}})
					return err == nil && reply.Entries[0].Verdict == Admitted
				})
				gomega.NewWithT(t).Expect(admitted).To(gomega.Equal(100))
			}
		})
	}
}

// A chain is charged as a whole or not at all, whoever runs at the same time.
func TestChainsAreAllOrNothingUnderConcurrency(t *testing.T) {
	g := gomega.NewWithT(t)
	server := testenv.StartRedis(t)
	policy := func(name string, algorithm Algorithm, quota int64) *Policy {
		return NewPolicy("test/"+name, false, false, []Limit{
			{Name: "l", Algorithm: algorithm, Quota: quota, Threshold: quota, Window: time.Hour},
		})
	}
	wide, tight := policy("wide", FixedWindow, 90), policy("tight", SlidingLog, 40)
	chains := [][]Entry{
		{{Policy: wide, Key: "a", Cost: 1}, {Policy: tight, Key: "a", Cost: 1}},
		{{Policy: tight, Key: "a", Cost: 2}, {Policy: wide, Key: "a", Cost: 1}},
		{{Policy: wide, Key: "a", Cost: 3}},
	}
	var mu sync.Mutex
	var onWide, onTight int64
	concurrently(t, server, 4, 400, func(s *Store) bool {
		call := &Call{Entries: chains[rand.IntN(len(chains))]}
		reply, err := s.Evaluate(t.Context(), call)
		if err != nil || slices.ContainsFunc(reply.Entries, func(e EntryReply) bool { return e.Verdict != Admitted }) {
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
	store := NewStore(newClient(t, server.Addr), testPrefix)
	reply, err := store.Evaluate(t.Context(), &Call{Entries: []Entry{
		{Policy: wide, Key: "a", Cost: 1, Peek: true}, {Policy: tight, Key: "a", Cost: 1, Peek: true},
	}})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(reply.Entries[0].Limits[0].Used).To(gomega.Equal(onWide))
	g.Expect(reply.Entries[1].Limits[0].Used).To(gomega.Equal(onTight))
}

// No interval of length window holds more than the threshold, whenever the
// checks come. The stamps of the admitted ones are Redis' own.
func TestSlidingLogInEveryInterval(t *testing.T) {
	g := gomega.NewWithT(t)
	const quota, window = 20, 50 * time.Millisecond
	server := testenv.StartRedis(t)
	observer := newClient(t, server.Addr)
	policy := NewPolicy("test/log", false, false, []Limit{
		{Name: "l", Algorithm: SlidingLog, Quota: quota, Threshold: quota, Window: window},
		{Name: "keeps", Algorithm: SlidingLog, Quota: 100_000, Threshold: 100_000, Window: time.Hour},
	})
	admitted := concurrently(t, server, 4, 4000, func(s *Store) bool {
		reply, err := s.Evaluate(t.Context(), &Call{Entries: []Entry{{Policy: policy, Key: "a", Cost: 1}}})
		return err == nil && reply.Entries[0].Verdict == Admitted
	})
	log, err := observer.LRange(t.Context(), testPrefix+layoutVersion+"{a}:test/log:sl", 0, -1).Result()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	var stamps []int64
	for i := 1; i < len(log); i += 2 {
		var at int64
		_, err := fmt.Sscan(log[i], &at)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		stamps = append(stamps, at)
	}
	g.Expect(stamps).To(gomega.HaveLen(admitted))
	g.Expect(admitted).To(gomega.BeNumerically(">", 2*quota), "several windows were filled")
	for i := range stamps[quota:] {
		g.Expect(stamps[i+quota] - stamps[i]).To(gomega.BeNumerically(">=", window.Microseconds()))
	}
}

// The window of a fixed window starts with the first unit and no later check
// extends it.
func TestFixedWindowIsNeverExtended(t *testing.T) {
	g := gomega.NewWithT(t)
	server := testenv.StartRedis(t)
	observer := newClient(t, server.Addr)
	policy := NewPolicy("test/fixed", false, false, []Limit{
		{Name: "l", Algorithm: FixedWindow, Quota: 50, Threshold: 50, Window: time.Hour},
	})
	key := testPrefix + layoutVersion + "{a}:test/fixed:l:fw:1h"
	check := func(s *Store) bool {
		_, err := s.Evaluate(t.Context(), &Call{Entries: []Entry{{Policy: policy, Key: "a", Cost: 1}}})
		return err == nil
	}
	check(NewStore(observer, testPrefix))
	end := observer.Do(t.Context(), "PEXPIRETIME", key).Val()
	concurrently(t, server, 4, 200, check)
	g.Expect(observer.Do(t.Context(), "PEXPIRETIME", key).Val()).To(gomega.Equal(end))
}

// A check that was refused is admitted after its wait and not one millisecond
// earlier, for every mix of limits, costs, blocks and ways of counting.
func TestWaitIsTheTruth(t *testing.T) {
	for _, b := range newBackends(t) {
		t.Run(b.name, func(t *testing.T) {
			const refusals = 400
			r := rand.New(rand.NewPCG(1, 2))
			for seen := 0; seen < refusals; {
				b.clear(t)
				w := newWorld(r, algorithms)
				now := b.clock.Now()
				for range 60 {
					now = now.Add(time.Duration(r.Int64N(3000)) * 100 * time.Microsecond)
					b.clock.Set(now)
					call := w.possibleCall()
					reply := b.evaluate(t, call)
					wait, refused := waitOfCall(call, reply)
					if !refused {
						continue
					}
					seen++
					peek := peekOf(call)
					for _, tc := range []struct {
						after time.Duration
						fits  bool
					}{{wait - time.Millisecond, false}, {wait, true}} {
						if tc.after < 0 {
							continue
						}
						b.clock.Set(now.Add(tc.after))
						_, stillRefused := waitOfCall(peek, b.evaluate(t, peek))
						gomega.NewWithT(t).Expect(!stillRefused).To(gomega.Equal(tc.fits),
							"%v after %s\nwait %v, reply %+v", tc.after, describe(0, call), wait, reply)
					}
					b.clock.Set(now)
				}
			}
		})
	}
}

// waitOfCall is what the engine makes of the waits: the longest of those who
// enforce, in whole milliseconds.
func waitOfCall(call *Call, reply *Reply) (wait time.Duration, refused bool) {
	for i, e := range call.Entries {
		if e.Policy.shadow {
			continue
		}
		refused = refused || reply.Entries[i].Verdict != Admitted
		for _, l := range reply.Entries[i].Limits {
			wait = max(wait, (l.Wait + time.Millisecond - 1).Truncate(time.Millisecond))
		}
	}
	return wait, refused
}

func peekOf(call *Call) *Call {
	peek := &Call{Entries: slices.Clone(call.Entries)}
	for i := range peek.Entries {
		peek.Entries[i].Peek = true
	}
	return peek
}

// After all windows and blocks have passed nothing is left in Redis.
func TestEverythingExpires(t *testing.T) {
	g := gomega.NewWithT(t)
	b, client := newRedisBackend(t)
	r := rand.New(rand.NewPCG(3, 4))
	w := newWorld(r, algorithms)
	now := b.clock.Now()
	for range 500 {
		now = now.Add(time.Duration(r.Int64N(2000)) * time.Microsecond)
		b.clock.Set(now)
		b.evaluate(t, w.nextCall())
	}
	keys, err := client.Keys(t.Context(), "*").Result()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(keys).NotTo(gomega.BeEmpty())
	for _, key := range keys {
		ttl := client.PTTL(t.Context(), key).Val()
		g.Expect(ttl).To(gomega.And(gomega.BeNumerically(">=", 0), gomega.BeNumerically("<=", 1001*time.Millisecond)), key)
	}
	b.clock.Set(now.Add(1003 * time.Millisecond))
	g.Expect(client.Keys(t.Context(), "*").Val()).To(gomega.BeEmpty())
}

// A log takes at most 16 bytes for each hit beyond the first ten, and a
// counted flood does not grow it.
func TestSlidingLogMemory(t *testing.T) {
	g := gomega.NewWithT(t)
	server := testenv.StartRedis(t)
	client := newClient(t, server.Addr)
	store := NewStore(client, testPrefix)
	memory := func(name string, attempts bool, checks int) int64 {
		policy := NewPolicy("test/"+name, attempts, false, []Limit{
			{Name: "l", Algorithm: SlidingLog, Quota: 2000, Threshold: 2000, Window: time.Hour},
		})
		for range checks {
			_, err := store.Evaluate(t.Context(), &Call{Entries: []Entry{{Policy: policy, Key: "0123456789abcdef", Cost: 1}}})
			g.Expect(err).NotTo(gomega.HaveOccurred())
		}
		return client.MemoryUsage(t.Context(), testPrefix+layoutVersion+"{0123456789abcdef}:test/"+name+":sl", 0).Val()
	}
	ten, full := memory("ten", false, 10), memory("full", false, 2000)
	t.Logf("10 hits: %d bytes; 2000 hits: %d bytes", ten, full)
	g.Expect(full - ten).To(gomega.BeNumerically("<=", 16*1990))
	const node = 8 << 10 // Redis frees the old end of a list in pieces of this size
	g.Expect(memory("flood", true, 6000)).To(gomega.BeNumerically("<=", full+node))
}

// Whatever is in the arguments, a call ends with a reply or an error, and the
// model agrees with it.
func FuzzCall(f *testing.F) {
	server, clock := testenv.StartRedisWithClock(f)
	client := newClient(f, server.Addr)
	store := NewStore(client, testPrefix)
	f.Add(uint8(0), int64(1), int64(1), int64(1), uint32(0), "alice", false)
	f.Add(uint8(1), int64(1<<31-1), int64(1<<31-1), int64(720*3600*1000), uint32(1000), "}{", true)
	f.Add(uint8(1), int64(100_000), int64(3), int64(2), uint32(1), strings.Repeat("\xff", 300), true)
	f.Fuzz(func(t *testing.T, kind uint8, quota, cost, window int64, step uint32, key string, attempts bool) {
		l := Limit{
			Name: "l", Algorithm: algorithms[int(kind)%len(algorithms)],
			Quota: clamp(quota, 1<<31-1), Window: time.Duration(clamp(window, 720*3600*1000)) * time.Millisecond,
		}
		l.Threshold, l.Block = l.Quota, l.Window
		entry := Entry{
			Policy: NewPolicy("test/fuzz", attempts, false, []Limit{l}), Key: EncodeKey(key), Cost: clamp(cost, 1<<31-1),
		}
		entry.Peek = entry.Cost > l.Quota
		model := &Model{}
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			now := clock.Advance(time.Duration(step) * time.Microsecond)
			call := &Call{Entries: []Entry{entry}}
			got, err := store.Evaluate(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			gomega.NewWithT(t).Expect(got).To(gomega.Equal(model.Evaluate(call, now)))
		}
	})
}

func clamp(n, most int64) int64 {
	n %= most
	if n < 0 {
		n = -n
	}
	return n + 1
}

// concurrently calls check that often in all, from goroutines spread over that
// many stores with connections of their own, and counts how often it is true.
func concurrently(t *testing.T, server *testenv.Redis, stores, checks int, check func(*Store) bool) int {
	t.Helper()
	const goroutines = 16 // each store
	var wg sync.WaitGroup
	results := make(chan bool, checks)
	todo := make(chan struct{}, checks)
	for range checks {
		todo <- struct{}{}
	}
	close(todo)
	for range stores {
		store := NewStore(newClient(t, server.Addr), testPrefix)
		for range goroutines {
			wg.Go(func() {
				for range todo {
					results <- check(store)
				}
			})
		}
	}
	wg.Wait()
	close(results)
	passed := 0
	for ok := range results {
		if ok {
			passed++
		}
	}
	return passed
}
