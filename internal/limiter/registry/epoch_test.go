// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/testenv"
)

// comeback is how soon a lost registry must be back.
const comeback = 2 * time.Second

func TestWipedRegistryIsPublishedAnew(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlans(10)...)
	a, b := c.watch("a"), c.watch("b")
	for _, r := range []*replica{a, b} {
		c.Eventually(r.plans).Should(gomega.Equal(10))
	}
	for range 3 {
		before := c.header()
		c.Expect(c.client.FlushAll(t.Context()).Err()).To(gomega.Succeed())
		c.Eventually(func() epoch { return c.header().epoch }).WithTimeout(comeback).
			ShouldNot(gomega.Or(gomega.BeEmpty(), gomega.Equal(before.epoch)))
		after := c.header()
		c.Expect(after.epoch.owner()).To(gomega.Equal(testOwner))
		c.Expect(after.epoch.stamp()).To(gomega.BeNumerically(">", before.epoch.stamp()))
		c.Expect(after.revision).To(gomega.Equal(before.revision+1), "one revision for all plans")
		for _, r := range []*replica{a, b} {
			c.Eventually(r.revision).WithTimeout(comeback).Should(gomega.Equal(after.revision))
			c.Expect(r.fewestPlans()).To(gomega.Equal(10), "plans are there throughout")
		}
	}
	c.Expect(testutil.ToFloat64(l.metrics.republishes)).To(gomega.BeEquivalentTo(4))
}

func TestRestoredBackupIsNotLoaded(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]int{"with replicas": 2, "without replicas": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			l := c.leadSynced(makePlan("login", 5))
			old := c.backup()
			c.Expect(l.Set(t.Context(), makePlan("login", 6))).To(gomega.Succeed())
			c.Expect(l.Set(t.Context(), makePlan("search", 6))).To(gomega.Succeed())
			before := c.header()
			var watchers []*replica
			for _, name := range []string{"a", "b"}[:replicas] {
				r := c.watch(name)
				c.Eventually(r.plans).Should(gomega.Equal(2))
				watchers = append(watchers, r)
			}
			c.restore(old)
			c.Eventually(func() epoch { return c.header().epoch }).WithTimeout(comeback).ShouldNot(gomega.Equal(before.epoch))
			for _, r := range watchers {
				c.Eventually(r.revision).WithTimeout(comeback).Should(gomega.BeNumerically(">", before.revision))
				c.Expect(r.fewestPlans()).To(gomega.Equal(2))
				c.Expect(r.threshold("shop/login")).To(gomega.BeEquivalentTo(6))
			}
		})
	}
}

func TestBackupOfAnEarlierEpochIsNotLoaded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(gomega.Equal(1))
	old, first := c.backup(), c.header()
	c.Expect(c.client.FlushAll(t.Context()).Err()).To(gomega.Succeed())
	c.Eventually(r.revision).Should(gomega.BeNumerically(">", first.revision))
	c.Expect(l.Set(t.Context(), makePlan("search", 6))).To(gomega.Succeed())
	c.Eventually(r.plans).Should(gomega.Equal(2))

	// The leader that could tell is gone, and its successor takes the backup for
	// what there is. Only the replica knows better.
	l.stop()
	<-l.done
	c.restore(old)
	c.Eventually(r.isFollowing).Should(gomega.BeFalse())
	next := c.lead(testOwner)
	c.Eventually(next.Err).Should(gomega.Succeed())
	_ = next.Set(t.Context(), makePlan("login", 6))
	_ = next.Set(t.Context(), makePlan("search", 6))
	next.Synced()
	c.Eventually(r.threshold).WithArguments("shop/login").WithTimeout(comeback).Should(gomega.BeEquivalentTo(6))
	c.Expect(r.plans()).To(gomega.Equal(2))
	c.Expect(r.threshold("shop/search")).To(gomega.BeEquivalentTo(6))
}

// A failover may lose the newest revision, and another leader may then write its
// own of the same number.
func TestOtherHistoryIsNotLoaded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(gomega.Equal(2))
	old := c.backup()
	c.Expect(l.Set(t.Context(), makePlan("login", 6))).To(gomega.Succeed())
	c.Eventually(r.threshold).WithArguments("shop/login").Should(gomega.BeEquivalentTo(6))
	l.stop()
	<-l.done

	// Nobody answers the replica's distrust until all plans are known.
	c.restore(old)
	next := c.lead(testOwner)
	c.Eventually(next.Err).Should(gomega.Succeed())
	used := r.snapshot()
	for _, threshold := range []int64{7, 8} {
		c.Expect(next.Set(t.Context(), makePlan("search", threshold))).To(gomega.Succeed())
		c.Consistently(r.snapshot).WithTimeout(period + 200*time.Millisecond).Should(gomega.BeIdenticalTo(used))
		c.Expect(r.isFollowing()).To(gomega.BeFalse())
	}
	c.Expect(next.Set(t.Context(), makePlan("login", 6))).To(gomega.Succeed())
	next.Synced()
	c.Eventually(r.threshold).WithArguments("shop/search").WithTimeout(comeback).Should(gomega.BeEquivalentTo(8))
	c.Expect(r.threshold("shop/login")).To(gomega.BeEquivalentTo(6))
	c.Eventually(r.isFollowing).Should(gomega.BeTrue())
}

// A failover that is undone leaves what the replica runs.
func TestReplicaFollowsAgainWhatItRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	old := c.backup()
	c.Expect(l.Set(t.Context(), makePlan("login", 6))).To(gomega.Succeed())
	r := c.watch("a")
	c.Eventually(r.plans).Should(gomega.Equal(1))
	l.stop()
	<-l.done
	current := c.backup()
	distrusts := func() epoch {
		_, alive, err := c.store.heartbeat(t.Context(), "test", "", nil)
		c.Expect(err).NotTo(gomega.HaveOccurred())
		i := slices.IndexFunc(alive, func(r report) bool { return r.Name == "a" })
		c.Expect(i).NotTo(gomega.Equal(-1))
		return alive[i].Distrusts
	}
	c.restore(old)
	c.Eventually(distrusts).Should(gomega.Equal(c.header().epoch))
	c.restore(current)
	c.Eventually(distrusts).Should(gomega.BeEmpty())
	c.Expect(r.isFollowing()).To(gomega.BeTrue())
}

// The clock of the server may be behind after a failover. Epochs rise all the same,
// because the replicas know the last one.
func TestEpochsRiseWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	server, clock := testenv.StartRedisWithClock(t)
	c := newClusterOn(t, server)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(gomega.Equal(1))
	before := c.header()
	l.stop()
	<-l.done
	clock.Advance(-time.Hour)
	c.Expect(c.client.FlushAll(t.Context()).Err()).To(gomega.Succeed())
	c.Eventually(func() int64 { return c.client.HLen(t.Context(), c.store.keys[3]).Val() }).Should(gomega.BeEquivalentTo(1))

	c.leadSynced(makePlan("login", 6))
	c.Eventually(r.threshold).WithArguments("shop/login").WithTimeout(comeback).Should(gomega.BeEquivalentTo(6))
	c.Expect(c.header().epoch.stamp()).To(gomega.BeNumerically(">", before.epoch.stamp()))
}

func TestEvictedPlansAreNoEmptyRegistry(t *testing.T) {
	t.Parallel()
	for i, what := range []string{"plans", "meta"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.leadSynced(makePlans(3)...)
			r := c.watch("a")
			c.Eventually(r.plans).Should(gomega.Equal(3))
			before := c.header()
			c.Expect(c.client.Del(t.Context(), c.store.keys[i]).Err()).To(gomega.Succeed())
			c.Eventually(r.revision).WithTimeout(comeback).Should(gomega.BeNumerically(">", before.revision))
			c.Expect(r.fewestPlans()).To(gomega.Equal(3))
		})
	}
}

func TestFirstEpochWaitsForAllPlans(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	r := c.watch("a")
	l := c.lead(testOwner)
	c.Expect(l.Set(t.Context(), makePlan("login", 5))).To(gomega.MatchError(ErrEpochLost))
	c.Expect(r.plans()).To(gomega.Equal(-1), "a registry without an epoch is not loaded")
	c.Expect(programmed(l, "shop/login")).To(gomega.BeFalse())
	_, err := l.replicas()
	c.Expect(err).To(gomega.MatchError(ErrEpochLost))

	l.Synced()
	c.Eventually(r.plans).Should(gomega.Equal(1))
	c.Eventually(programmed).WithArguments(l, "shop/login").Should(gomega.BeTrue())
}

func TestEmptyInstallationHasAnEpoch(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.leadSynced()
	r := c.watch("a")
	c.Eventually(r.plans).Should(gomega.BeZero())
}

func TestManyPlansAreOneRevision(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	plans := makePlans(5000)
	for _, p := range plans {
		p.Denial.Message = strings.Repeat("x", 1500)
	}
	l := c.lead(testOwner)
	for _, p := range plans {
		l.want(p.ID(), encoded(c, p)) //nolint:errcheck // the leader is there
	}
	l.Synced()
	c.Eventually(l.Err).Should(gomega.Succeed())
	c.Expect(c.header().revision).To(gomega.BeEquivalentTo(1))
	r := c.watch("a")
	c.Eventually(r.plans).Should(gomega.Equal(len(plans)))

	c.Expect(c.client.FlushAll(t.Context()).Err()).To(gomega.Succeed())
	c.Eventually(func() epoch { return c.header().epoch }).WithTimeout(comeback).ShouldNot(gomega.BeEmpty())
	c.Expect(c.header().revision).To(gomega.BeEquivalentTo(2))
	c.Eventually(r.revision).Should(gomega.BeEquivalentTo(2))
	c.Expect(r.fewestPlans()).To(gomega.Equal(len(plans)))

	// As many changes within an epoch: more than the set of changes remembers.
	before := r.snapshot()
	for _, p := range plans {
		changed := *p
		changed.Generation++
		l.want(p.ID(), encoded(c, &changed)) //nolint:errcheck // the leader is there
	}
	c.Expect(l.Set(t.Context(), makePlan("p0", 9))).To(gomega.Succeed())
	c.Eventually(r.threshold).WithArguments("shop/p0").Should(gomega.BeEquivalentTo(9))
	c.Expect(r.snapshot().Lookup("shop/p4999")).NotTo(gomega.BeIdenticalTo(before.Lookup("shop/p4999")))
	c.Expect(c.client.ZCard(t.Context(), c.store.keys[2]).Val()).To(gomega.BeEquivalentTo(rememberedChanges))
}

func TestStoppedRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(gomega.Equal(1))

	c.redis.Stop()
	c.Expect(l.Set(t.Context(), makePlan("search", 5))).To(gomega.MatchError(gomega.ContainSubstring("redis: ")))
	c.Expect(l.Set(t.Context(), makePlan("login", 6))).To(gomega.MatchError(gomega.ContainSubstring("redis: ")))
	c.Expect(l.Err()).To(gomega.HaveOccurred())
	c.Eventually(r.isFollowing).Should(gomega.BeFalse())
	c.Expect(r.plans()).To(gomega.Equal(1))

	c.redis.Start()
	c.Eventually(r.plans).WithTimeout(comeback).Should(gomega.Equal(2))
	c.Expect(r.threshold("shop/login")).To(gomega.BeEquivalentTo(6))
	c.Expect(r.fewestPlans()).To(gomega.Equal(1))
	c.Eventually(l.Err).Should(gomega.Succeed())
}

func TestWriteWhoseReplyIsLostIsNotDoneTwice(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(gomega.Equal(1))
	before := c.header()
	c.redis.Pause()
	c.Expect(l.Set(t.Context(), makePlan("search", 5))).To(gomega.MatchError(gomega.ContainSubstring("redis: ")))
	c.redis.Resume()
	c.Eventually(programmed).WithArguments(l, "shop/search").Should(gomega.BeTrue())
	c.Eventually(r.plans).Should(gomega.Equal(2))
	c.Expect(c.header().epoch).To(gomega.Equal(before.epoch))
	c.Expect(c.header().revision).To(gomega.Equal(before.revision + 1))
}
