// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// newRedisCluster is newCluster with a Redis Cluster.
func newRedisCluster(tb testing.TB) (*cluster, *testenv.RedisCluster) {
	tb.Helper()
	nodes := testenv.StartRedisCluster(tb)
	c := newClusterBy(tb, func() (redis.UniversalClient, error) { return redisclient.New(nodes.URL, time.Minute) })
	c.SetDefaultEventuallyTimeout(30 * time.Second)
	return c, nodes
}

// expectEdits edits a plan four times and expects the replicas to receive each edit
// through the subscription: polling once a period would take too long.
func (c *cluster) expectEdits(l *leader, first int64, replicas ...*replica) {
	c.tb.Helper()
	const edits = 4
	threshold := first
	c.Eventually(func() time.Duration {
		began := time.Now()
		for range edits {
			threshold++
			c.Expect(l.Set(c.tb.Context(), makePlan("login", threshold), plan.SetOptions{})).To(Succeed())
			for _, r := range replicas {
				c.Eventually(r.threshold).WithArguments("shop/login").Should(Equal(threshold))
			}
		}
		return time.Since(began)
	}).Should(BeNumerically("<", (edits-1)*period), "by heartbeats each edit takes a period")
}

func TestReplicasFollowOnRedisCluster(t *testing.T) {
	t.Parallel()
	c, nodes := newRedisCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	a, b := c.watch("a"), c.watch("b")
	for _, r := range []*replica{a, b} {
		c.Eventually(r.plans).Should(Equal(2))
	}
	c.expectEdits(l, 6, a, b)
	first := c.header().epoch
	c.Eventually(l.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))

	c.Expect(l.Delete(t.Context(), "shop/search")).To(Succeed())
	for _, r := range []*replica{a, b} {
		c.Eventually(r.plans).Should(Equal(1))
	}
	b.stop()
	<-b.done
	c.Eventually(a.Replicas).WithContext(t.Context()).Should(ConsistOf(HaveField("Name", "a")))

	// The slot moves. The subscription stays on its node and still receives messages.
	slot, from := nodes.Slot(c.scripts.keys[0]), nodes.Owner(c.scripts.keys[0])
	to := nodes.Nodes[0]
	if from == to {
		to = nodes.Nodes[1]
	}
	m := nodes.StartMigration(slot, to)
	c.expectEdits(l, 1000, a)
	m.Move(c.scripts.keys...)
	c.expectEdits(l, 2000, a)
	m.Finish()
	c.expectEdits(l, 3000, a)
	c.Expect(c.header().epoch).To(Equal(first), "the epoch stays")
	c.Expect(nodes.Client(to).Exists(t.Context(), c.scripts.keys...).Val()).To(BeEquivalentTo(5))
}

func TestRedisClusterRestoresTheNodeWithThePlans(t *testing.T) {
	t.Parallel()
	c, nodes := newRedisCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	first := c.header().epoch

	node := nodes.Owner(c.scripts.keys[0])
	node.Stop()
	c.Eventually(l.Err).Should(HaveOccurred())
	c.Eventually(r.isFollowing).Should(BeFalse())
	node.Start()
	c.Eventually(l.Err).Should(Succeed())
	c.Eventually(r.isFollowing).Should(BeTrue())
	c.Expect(c.header().epoch).NotTo(Equal(first), "the node restarts empty")
	c.Expect(r.fewestPlans()).To(Equal(1))
	c.expectEdits(l, 6, r)
}
