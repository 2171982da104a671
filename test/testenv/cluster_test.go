// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

func TestClusterServes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := testenv.StartRedisCluster(t)
	g.Expect(c.Nodes).To(HaveLen(3))
	g.Expect(c.URL).To(HavePrefix("redis-cluster://" + c.Nodes[0].Addr + "?addr="))
	for _, node := range c.Nodes {
		key := c.KeyOn(node, "k")
		g.Expect(c.Owner(key)).To(BeIdenticalTo(node))
		for _, entryNode := range c.Nodes {
			err := c.Client(entryNode).Set(t.Context(), key, "v", 0).Err()
			if entryNode == node {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(HavePrefix("MOVED ")))
			}
		}
	}
}

func TestClusterOfOneMasterServes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := testenv.StartRedisClusterOf(t, 1)
	g.Expect(c.URL).To(Equal("redis-cluster://" + c.Nodes[0].Addr))
	g.Expect(c.Client(c.Nodes[0]).Set(t.Context(), "k", "v", 0).Err()).To(Succeed())
}

func TestClusterMigratesSlotWhileItServes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	c := testenv.StartRedisCluster(t)
	from, to := c.Nodes[0], c.Nodes[2]
	tag := "{" + c.KeyOn(from, "tag") + "}"
	gone, stays := tag+"gone", tag+"stays"
	source, target := c.Client(from), c.Client(to)
	g.Expect(source.MSet(ctx, gone, "1", stays, "1").Err()).To(Succeed())

	m := c.StartMigration(c.Slot(tag), to)
	g.Expect(m.From).To(BeIdenticalTo(from))
	m.Move(gone, tag+"missing")
	g.Expect(source.Get(ctx, stays).Val()).To(Equal("1"))
	g.Expect(source.Get(ctx, gone).Err()).To(MatchError(HavePrefix("ASK ")))
	g.Expect(source.MGet(ctx, gone, stays).Err()).To(MatchError(HavePrefix("TRYAGAIN ")))
	g.Expect(target.Get(ctx, gone).Err()).To(MatchError(HavePrefix("MOVED ")), "not without ASKING")
	g.Expect(c.Owner(gone)).To(BeIdenticalTo(from))

	m.Finish()
	g.Expect(c.Owner(gone)).To(BeIdenticalTo(to))
	g.Expect(target.MGet(ctx, gone, stays).Val()).To(Equal([]any{"1", "1"}))
	g.Expect(source.Get(ctx, stays).Err()).To(MatchError(HavePrefix("MOVED ")))

	c.Migrate(c.Slot(tag), c.Nodes[1])
	g.Expect(c.Client(c.Nodes[1]).Get(ctx, gone).Val()).To(Equal("1"))
}

func TestClusterLosesNodeAndGetsItBack(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := testenv.StartRedisCluster(t)
	lost, other := c.Nodes[0], c.Client(c.Nodes[1])
	key := c.KeyOn(c.Nodes[1], "k")

	lost.Stop()
	g.Eventually(func() error { return other.Incr(t.Context(), key).Err() }).WithTimeout(30 * time.Second).
		Should(MatchError(HavePrefix("CLUSTERDOWN ")))
	lost.Start()
	c.AwaitOK()
	g.Expect(other.Incr(t.Context(), key).Err()).To(Succeed())
	g.Expect(c.Owner(c.KeyOn(lost, "k"))).To(BeIdenticalTo(lost))
}
