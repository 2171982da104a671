// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// Every key has a TTL, which no window, block, hold or debt exceeds.
func TestEveryKeyHasATTL(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			g := NewWithT(t)
			b, client := newSubject(t, on)
			storetest.MakeRandomCalls(t, b)
			keys, err := client.Keys(t.Context(), "*").Result()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(keys).NotTo(BeEmpty())
			for _, key := range keys {
				ttl := client.PTTL(t.Context(), key).Val()
				longest := storetest.LongestNeed
				if strings.Contains(key, ":charge!") {
					longest = store.ChargeMemory
				} else if strings.HasSuffix(key, ":block") {
					longest *= 2 // a mark of holds
				} else if isBucket(key) {
					longest += store.MaxDebt
				}
				g.Expect(ttl).To(And(BeNumerically(">=", 0), BeNumerically("<=", longest)), key)
			}
		})
	}
}

// isBucket reports whether the key is the state of an algorithm that works off debts.
func isBucket(key string) bool {
	return strings.Contains(key, ":tb:") || strings.Contains(key, ":gc:")
}

// The size of a key of each algorithm, by MEMORY USAGE, with a 16-byte key value.
// docs/algorithms.md lists these figures.
func TestMemory(t *testing.T) {
	server := testenv.StartRedis(t)
	client := newClient(t, server.Addr)
	backend := NewStore(Options{Client: client, Prefix: "weir:", Timeout: time.Minute})
	spend := func(t *testing.T, name string, attempts bool, l store.Limit, checks int) int64 {
		t.Helper()
		NewWithT(t).Expect(client.FlushAll(t.Context()).Err()).To(Succeed())
		l.Name = "burst"
		policy := store.NewPolicy("shop/"+name, attempts, false, []store.Limit{l})
		for range checks {
			_, err := backend.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: policy, Key: "0123456789abcdef", Cost: 1}}})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		}
		bytes := client.MemoryUsage(t.Context(), backend.key("0123456789abcdef", preparedOf(policy).keys[1]), 0).Val()
		t.Logf("%s: %d bytes", t.Name(), bytes)
		return bytes
	}
	for name, tc := range map[string]struct {
		limit store.Limit
		most  int64
	}{
		"FixedWindow": {store.Limit{Algorithm: store.FixedWindow, Quota: 1000, Window: time.Hour}, 120},
		"GCRA, a threshold that divides a window": {store.Limit{Algorithm: store.GCRA, Quota: 1000, Threshold: 100, Window: time.Hour}, 120},
		"GCRA, one that does not":                 {store.Limit{Algorithm: store.GCRA, Quota: 1000, Threshold: 700, Window: time.Hour}, 120},
		"TokenBucket":                             {store.Limit{Algorithm: store.TokenBucket, Quota: 1000, Threshold: 700, Window: time.Hour}, 144},
		"TokenBucket, the largest":                {store.Limit{Algorithm: store.TokenBucket, Quota: 1<<31 - 1, Threshold: 1, Window: 720 * time.Hour}, 144},
	} {
		t.Run(name, func(t *testing.T) {
			tc.limit.Threshold = max(tc.limit.Threshold, 1)
			NewWithT(t).Expect(spend(t, "login", false, tc.limit, 500)).To(BeNumerically("<=", tc.most))
		})
	}
	t.Run("SlidingLog", func(t *testing.T) {
		g := NewWithT(t)
		log := store.Limit{Algorithm: store.SlidingLog, Quota: 2000, Threshold: 2000, Window: time.Hour}
		ten, full := spend(t, "ten", false, log, 10), spend(t, "full", false, log, 2000)
		g.Expect(full-ten).To(BeNumerically("<=", 16*1990), "16 bytes a hit")
		const node = 8 << 10 // Redis frees the old end of a list in pieces of this size
		g.Expect(spend(t, "flood", true, log, 6000)).To(BeNumerically("<=", full+node), "a flood does not grow the log")
	})
}

// The size of a key that counts in buckets is bounded by the number of buckets, for any
// number of checks.
func TestMemoryOfBuckets(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			g := NewWithT(t)
			b, client := newSubject(t, on)
			for _, l := range []store.Limit{
				{Algorithm: store.SlidingWindow, Quota: 1e6, Threshold: 1e6, Window: time.Minute, Bucket: time.Second},
				{Algorithm: store.Suppressed, Quota: 10, Threshold: 10, HardQuota: 15, Window: time.Minute, Bucket: time.Second},
			} {
				l.Name = "burst"
				policy := store.NewPolicy("shop/login", false, false, []store.Limit{l})
				key := testPrefix + layoutVersion + "{0123456789abcdef}:" + preparedOf(policy).keys[1]
				for range 3000 {
					b.Clock.Set(b.Clock.Now().Add(50 * time.Millisecond))
					b.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "0123456789abcdef", Cost: 1}}})
				}
				elements := client.LLen(t.Context(), key).Val()
				bytes := client.MemoryUsage(t.Context(), key, 0).Val()
				t.Logf("%s: %d bytes in %d elements", l.Algorithm, bytes, elements)
				g.Expect(elements).To(BeNumerically("<=", 3*62+2))
				g.Expect(bytes).To(BeNumerically("<=", 62*24+200))
			}
		})
	}
}

// A log holds only the hits that the largest threshold needs, even if one variant admits
// many while another has a longer window.
func TestMemoryOfVariants(t *testing.T) {
	g := NewWithT(t)
	b, client := newSubject(t, servers[0])
	log := func(window time.Duration) []store.Limit {
		return []store.Limit{{Name: "l", Algorithm: store.SlidingLog, Quota: 10, Threshold: 10, Window: window}}
	}
	variants := store.NewVariants(store.Settings{ID: "test/v"}, log(10*time.Millisecond), log(24*time.Hour))
	for range 2000 {
		b.Clock.Set(b.Clock.Now().Add(time.Millisecond))
		b.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: variants[0], Key: "a", Cost: 1}}})
	}
	g.Expect(client.LLen(t.Context(), testPrefix+layoutVersion+"{a}:test/v:sl").Val()).To(BeNumerically("<=", 2*20+1))
	reply := b.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: variants[1], Key: "a", Cost: 1}}})
	g.Expect(reply.Entries[0].Verdict).To(Equal(store.Denied), "the long window is full")
}
