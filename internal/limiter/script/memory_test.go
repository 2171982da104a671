// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

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
