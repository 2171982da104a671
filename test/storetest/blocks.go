// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// BlockStore is a store that lists blocks.
type BlockStore interface {
	Evaluator
	Block(ctx context.Context, policy *store.Policy, key store.Key, length time.Duration) error
	Unblock(ctx context.Context, policy *store.Policy, key store.Key) (bool, error)
	AddBlocks(ctx context.Context, policy string, blocks []store.Block) error
	RemoveBlock(ctx context.Context, policy string, key store.Key) error
	CountBlocks(ctx context.Context, policies []string) ([]int, error)
	Blocks(ctx context.Context, policy string, most int) (live []store.Block, more bool, err error)
	FindBlock(ctx context.Context, policy, hash string) (store.Key, error)
}

// TestBlockLists tests the lists of blocks of a store. open returns an empty store, and a function that lets time
// pass, or nil if the test cannot.
func TestBlockLists(t *testing.T, open func(testing.TB) (BlockStore, func(time.Duration))) {
	t.Helper()
	t.Run("live blocks", func(t *testing.T) {
		s, advance := open(t)
		listsLiveBlocks(t, s, advance)
	})
	t.Run("the limit of a block", func(t *testing.T) {
		s, _ := open(t)
		namesTheLimit(t, s)
	})
	t.Run("bounds", func(t *testing.T) {
		s, _ := open(t)
		boundsLists(t, s)
	})
}

// block blocks the key and lists the block.
func block(t *testing.T, s BlockStore, p *store.Policy, key store.Key, length time.Duration) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.Block(t.Context(), p, key, length)).To(Succeed())
	g.Expect(s.AddBlocks(t.Context(), p.ID(), []store.Block{{Key: key, Left: length}})).To(Succeed())
}

// keysOf returns the keys of up to most live blocks.
func keysOf(t *testing.T, s BlockStore, policy string, most int) (keys []store.Key, more bool) {
	t.Helper()
	live, more, err := s.Blocks(t.Context(), policy, most)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, b := range live {
		keys = append(keys, b.Key)
	}
	return keys, more
}

func blockPolicy(id string) *store.Policy {
	return store.NewVariants(store.Settings{ID: id}, []store.Limit{{
		Name: "l", Algorithm: store.FixedWindow, Quota: 1, Threshold: 1, Window: time.Minute, Block: time.Hour,
	}})[0]
}

func listsLiveBlocks(t *testing.T, s BlockStore, advance func(time.Duration)) {
	t.Helper()
	g := NewWithT(t)
	p, other := blockPolicy("shop/login"), blockPolicy("shop/other")
	hostile := store.EncodeKey("{a}:\x1b[31m\xff|", strings.Repeat("x", 64<<10))
	block(t, s, p, "alice", time.Hour)
	block(t, s, p, "bob", 2*time.Hour)
	block(t, s, p, hostile, 3*time.Hour)
	block(t, s, other, "carol", time.Hour)
	keys, more := keysOf(t, s, "shop/login", 10)
	g.Expect(keys).To(Equal([]store.Key{hostile, "bob", "alice"}))
	g.Expect(more).To(BeFalse())
	keys, more = keysOf(t, s, "shop/login", 2)
	g.Expect(keys).To(Equal([]store.Key{hostile, "bob"}))
	g.Expect(more).To(BeTrue())
	g.Expect(s.FindBlock(t.Context(), "shop/login", hostile.Hash())).To(Equal(hostile))
	g.Expect(s.FindBlock(t.Context(), "shop/other", hostile.Hash())).To(BeEmpty())
	g.Expect(s.CountBlocks(t.Context(), []string{"shop/login", "shop/none", "shop/other"})).To(Equal([]int{3, 0, 1}))

	// A lifted block is not listed, even if the list still has its key.
	g.Expect(s.Unblock(t.Context(), p, "bob")).To(BeTrue())
	keys, _ = keysOf(t, s, "shop/login", 10)
	g.Expect(keys).To(Equal([]store.Key{hostile, "alice"}))
	g.Expect(s.RemoveBlock(t.Context(), "shop/login", "alice")).To(Succeed())
	keys, _ = keysOf(t, s, "shop/login", 10)
	g.Expect(keys).To(Equal([]store.Key{hostile}))

	if advance == nil {
		return
	}
	advance(4 * time.Hour)
	g.Expect(keysOf(t, s, "shop/login", 10)).To(BeEmpty())
	g.Expect(s.CountBlocks(t.Context(), []string{"shop/login"})).To(Equal([]int{0}), "the list expires with its last block")
}

// A listed block has the name of the limit that started it, and its remaining time.
func namesTheLimit(t *testing.T, s BlockStore) {
	t.Helper()
	g := NewWithT(t)
	p := blockPolicy("shop/login")
	for range 2 {
		_, err := s.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: p, Key: "alice", Cost: 1}}})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(s.AddBlocks(t.Context(), p.ID(), []store.Block{{Key: "alice", Left: time.Hour}})).To(Succeed())
	live, _, err := s.Blocks(t.Context(), p.ID(), 10)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live).To(HaveLen(1))
	g.Expect(live[0].By).To(Equal("l"))
	g.Expect(live[0].Left).To(BeNumerically("~", time.Hour, time.Minute))
}

func boundsLists(t *testing.T, s BlockStore) {
	t.Helper()
	g := NewWithT(t)
	blocks := make([]store.Block, store.MaxListedBlocks+500)
	for i := range blocks {
		blocks[i] = store.Block{Key: store.Key(fmt.Sprintf("user-%d", i)), Left: time.Hour + time.Duration(i)*time.Second}
	}
	g.Expect(s.AddBlocks(t.Context(), "shop/login", blocks)).To(Succeed())
	g.Expect(s.CountBlocks(t.Context(), []string{"shop/login"})).To(Equal([]int{store.MaxListedBlocks}))
	g.Expect(s.FindBlock(t.Context(), "shop/login", store.Key("user-499").Hash())).To(BeEmpty(), "it ends first")
	g.Expect(s.FindBlock(t.Context(), "shop/login", store.Key("user-500").Hash())).To(Equal(store.Key("user-500")))
}
