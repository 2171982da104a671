// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/memory"
	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/redisstore"
	"github.com/weir-dev/weir/internal/testenv"
)

// blockStore is a store that lists blocks.
type blockStore interface {
	Block(ctx context.Context, policy *quota.Policy, key quota.Key, length time.Duration) error
	Unblock(ctx context.Context, policy *quota.Policy, key quota.Key) (bool, error)
	AddBlocks(ctx context.Context, policy string, blocks []quota.Block) error
	RemoveBlock(ctx context.Context, policy string, key quota.Key) error
	CountBlocks(ctx context.Context, policies []string) ([]int, error)
	Blocks(ctx context.Context, policy string, most int) (live []quota.Block, more bool, err error)
	FindBlock(ctx context.Context, policy, hash string) (quota.Key, error)
}

// forEachBlockStore runs the test on a real Redis, on a Redis Cluster and in memory. advance lets
// time pass.
func forEachBlockStore(t *testing.T, test func(t *testing.T, s blockStore, advance func(time.Duration))) {
	t.Helper()
	t.Run("Redis", func(t *testing.T) {
		server, clock := testenv.StartRedisWithClock(t)
		test(t, newBlockStore(t, server.URL), func(d time.Duration) { clock.Advance(d) })
	})
	t.Run("Cluster", func(t *testing.T) {
		test(t, newBlockStore(t, testenv.StartRedisCluster(t).URL), nil)
	})
	t.Run("Memory", func(t *testing.T) {
		now := time.Unix(1_700_000_000, 0)
		s := memory.NewStore(memory.Options{Keys: 100_000, Now: func() time.Time { return now }})
		test(t, s, func(d time.Duration) { now = now.Add(d) })
	})
}

func newBlockStore(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	client, err := redisclient.New(url, 10*time.Second)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	return redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: 10 * time.Second})
}

// block blocks the key and lists the block.
func block(t *testing.T, s blockStore, p *quota.Policy, key quota.Key, length time.Duration) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.Block(t.Context(), p, key, length)).To(Succeed())
	g.Expect(s.AddBlocks(t.Context(), p.ID(), []quota.Block{{Key: key, Left: length}})).To(Succeed())
}

// keysOf returns the keys of up to most live blocks.
func keysOf(t *testing.T, s blockStore, policy string, most int) (keys []quota.Key, more bool) {
	t.Helper()
	live, more, err := s.Blocks(t.Context(), policy, most)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, b := range live {
		keys = append(keys, b.Key)
	}
	return keys, more
}

func blockPolicy(id string) *quota.Policy {
	return quota.NewVariants(quota.Settings{ID: id}, []quota.Limit{{
		Name: "l", Algorithm: quota.FixedWindow, Quota: 1, Threshold: 1, Window: time.Minute, Block: time.Hour,
	}})[0]
}

func TestBlocksListsLiveBlocks(t *testing.T) {
	forEachBlockStore(t, func(t *testing.T, s blockStore, advance func(time.Duration)) {
		t.Helper()
		g := NewWithT(t)
		p, other := blockPolicy("shop/login"), blockPolicy("shop/other")
		hostile := quota.EncodeKey("{a}:\x1b[31m\xff|", strings.Repeat("x", 64<<10))
		block(t, s, p, "alice", time.Hour)
		block(t, s, p, "bob", 2*time.Hour)
		block(t, s, p, hostile, 3*time.Hour)
		block(t, s, other, "carol", time.Hour)
		keys, more := keysOf(t, s, "shop/login", 10)
		g.Expect(keys).To(Equal([]quota.Key{hostile, "bob", "alice"}))
		g.Expect(more).To(BeFalse())
		keys, more = keysOf(t, s, "shop/login", 2)
		g.Expect(keys).To(Equal([]quota.Key{hostile, "bob"}))
		g.Expect(more).To(BeTrue())
		g.Expect(s.FindBlock(t.Context(), "shop/login", hostile.Hash())).To(Equal(hostile))
		g.Expect(s.FindBlock(t.Context(), "shop/other", hostile.Hash())).To(BeEmpty())
		g.Expect(s.CountBlocks(t.Context(), []string{"shop/login", "shop/none", "shop/other"})).To(Equal([]int{3, 0, 1}))

		// A lifted block is not listed, even if the list still has its key.
		g.Expect(s.Unblock(t.Context(), p, "bob")).To(BeTrue())
		keys, _ = keysOf(t, s, "shop/login", 10)
		g.Expect(keys).To(Equal([]quota.Key{hostile, "alice"}))
		g.Expect(s.RemoveBlock(t.Context(), "shop/login", "alice")).To(Succeed())
		keys, _ = keysOf(t, s, "shop/login", 10)
		g.Expect(keys).To(Equal([]quota.Key{hostile}))

		if advance == nil {
			return
		}
		advance(4 * time.Hour)
		g.Expect(keysOf(t, s, "shop/login", 10)).To(BeEmpty())
		g.Expect(s.CountBlocks(t.Context(), []string{"shop/login"})).To(Equal([]int{0}), "the list expires with its last block")
	})
}

// The block that began counts, with the name of its limit, and its remaining time.
func TestBlocksNameTheLimit(t *testing.T) {
	forEachBlockStore(t, func(t *testing.T, s blockStore, _ func(time.Duration)) {
		t.Helper()
		g := NewWithT(t)
		decider, ok := s.(interface {
			Evaluate(ctx context.Context, call *quota.Call) (*quota.Reply, error)
		})
		g.Expect(ok).To(BeTrue())
		p := blockPolicy("shop/login")
		for range 2 {
			_, err := decider.Evaluate(t.Context(), &quota.Call{Entries: []quota.Entry{{Policy: p, Key: "alice", Cost: 1}}})
			g.Expect(err).NotTo(HaveOccurred())
		}
		g.Expect(s.AddBlocks(t.Context(), p.ID(), []quota.Block{{Key: "alice", Left: time.Hour}})).To(Succeed())
		live, _, err := s.Blocks(t.Context(), p.ID(), 10)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(live).To(HaveLen(1))
		g.Expect(live[0].By).To(Equal("l"))
		g.Expect(live[0].Left).To(BeNumerically("~", time.Hour, time.Minute))
	})
}

func TestBlockListsAreBounded(t *testing.T) {
	forEachBlockStore(t, func(t *testing.T, s blockStore, _ func(time.Duration)) {
		t.Helper()
		g := NewWithT(t)
		blocks := make([]quota.Block, quota.MaxListedBlocks+500)
		for i := range blocks {
			blocks[i] = quota.Block{Key: quota.Key(fmt.Sprintf("user-%d", i)), Left: time.Hour + time.Duration(i)*time.Second}
		}
		g.Expect(s.AddBlocks(t.Context(), "shop/login", blocks)).To(Succeed())
		g.Expect(s.CountBlocks(t.Context(), []string{"shop/login"})).To(Equal([]int{quota.MaxListedBlocks}))
		g.Expect(s.FindBlock(t.Context(), "shop/login", quota.Key("user-499").Hash())).To(BeEmpty(), "it ends first")
		g.Expect(s.FindBlock(t.Context(), "shop/login", quota.Key("user-500").Hash())).To(Equal(quota.Key("user-500")))
	})
}

// A shorter block does not move the end of a longer one in the list, since the later of two messages
// may arrive first. Ended blocks are removed.
func TestBlockListsKeepTheLatestEnd(t *testing.T) {
	g := NewWithT(t)
	server, clock := testenv.StartRedisWithClock(t)
	s := newBlockStore(t, server.URL)
	options, err := redis.ParseURL(server.URL)
	g.Expect(err).NotTo(HaveOccurred())
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	add := func(key string, left time.Duration) {
		t.Helper()
		g.Expect(s.AddBlocks(t.Context(), "shop/login", []quota.Block{{Key: quota.Key(key), Left: left}})).To(Succeed())
	}
	add("alice", time.Hour)
	add("alice", time.Minute)
	add("bob", time.Minute)
	clock.Advance(2 * time.Minute)
	add("carol", time.Minute)
	const list = "weir:1:c:{shop/login}:blocked"
	g.Expect(client.ZRange(t.Context(), list, 0, -1).Result()).To(Equal([]string{"carol", "alice"}))
	g.Expect(client.PTTL(t.Context(), list).Val()).To(BeNumerically("~", 58*time.Minute, 2*time.Second))
}

func FuzzKeyParts(f *testing.F) {
	f.Add("alice", "192.0.2.1")
	f.Add("-", "%")
	f.Add("", "{}|:# \x00\x1b\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, parts := range [][]string{{a}, {a, b}} {
			if slices.ContainsFunc(parts, func(p string) bool { return len(p) > quota.MaxValueBytes }) {
				continue
			}
			got := quota.EncodeKey(parts...).Parts()
			if len(parts) == 1 && a == "" {
				parts = nil // the shared budget
			}
			NewWithT(t).Expect(got).To(Equal(parts))
		}
	})
}
