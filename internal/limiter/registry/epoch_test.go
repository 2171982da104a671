// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

// restoredWithin is the promised time until a lost registry is published again, on a machine that is not busy.
const restoredWithin = 2 * time.Second

func TestWipedRegistryIsPublishedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlans(10)...)
	a, b := c.watch("a"), c.watch("b")
	for _, r := range []*replica{a, b} {
		c.Eventually(r.plans).Should(Equal(10))
	}
	// How long the same takes for an edit shows how busy the machine is.
	edited := time.Now()
	c.Expect(l.Set(t.Context(), makePlan("control", 1), plan.SetOptions{})).To(Succeed())
	for _, r := range []*replica{a, b} {
		c.Eventually(r.plans).Should(Equal(11))
	}
	control := time.Since(edited)
	for range 3 {
		before := c.header()
		c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
		wiped := time.Now()
		c.Eventually(func() epoch { return c.header().epoch }).
			ShouldNot(Or(BeEmpty(), Equal(before.epoch)))
		after := c.header()
		c.Expect(after.epoch.owner()).To(Equal(testOwner))
		c.Expect(after.epoch.stamp()).To(BeNumerically(">", before.epoch.stamp()))
		c.Expect(after.revision).To(Equal(before.revision+1), "one revision for all plans")
		for _, r := range []*replica{a, b} {
			c.Eventually(r.revision).Should(Equal(after.revision))
			c.Expect(r.fewestPlans()).To(Equal(10), "the replica never runs fewer plans")
		}
		c.Expect(time.Since(wiped)).To(BeNumerically("<", restoredWithin+100*control), "an edit takes %v", control)
	}
	// The replicas may follow the last epoch before its leader has counted it.
	c.Eventually(func() float64 { return testutil.ToFloat64(l.metrics.republishes) }).Should(BeEquivalentTo(4))
}

// Otherwise all replicas would read all plans at once when the leader publishes a lost registry again.
func TestEqualPlansOfANewEpochAreNotRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.leadSynced(makePlans(10)...)
	a := c.watch("a")
	c.Eventually(a.plans).Should(Equal(10))
	before := c.header()
	read := func(have version) (int64, int) {
		_, what, plans, err := c.scripts.read(t.Context(), have)
		c.Expect(err).NotTo(HaveOccurred())
		return what, len(plans)
	}
	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(func() epoch { return c.header().epoch }).ShouldNot(Or(BeEmpty(), Equal(before.epoch)))
	after := c.header()
	c.Expect(after.digest).To(Equal(before.digest))
	c.Eventually(a.revision).Should(Equal(after.revision))
	what, plans := read(before.version)
	c.Expect([]any{what, plans}).To(Equal([]any{readChanges, 0}))
	what, plans = read(version{epoch: before.epoch, revision: before.revision, digest: "other"})
	c.Expect([]any{what, plans}).To(Equal([]any{readAll, 10}))
	what, plans = read(version{})
	c.Expect([]any{what, plans}).To(Equal([]any{readAll, 10}))
}

// A leader that has not written anything continues the revision that the replicas run.
func TestRevisionContinuesWithTheNextLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	for i := range int64(3) {
		c.Expect(l.Set(t.Context(), makePlan("login", 6+i), plan.SetOptions{})).To(Succeed())
	}
	a, before := c.watch("a"), c.header()
	c.Eventually(a.revision).Should(Equal(before.revision))
	l.stop()
	<-l.done
	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(c.processes).Should(HaveLen(1), "the replica")
	c.leadSynced(makePlan("login", 9))
	c.Expect(c.header().revision).To(Equal(before.revision + 1))
}

func TestRestoredBackupIsNotLoaded(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]int{"with replicas": 2, "without replicas": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			l := c.leadSynced(makePlan("login", 5))
			old := c.backup()
			c.Expect(l.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(Succeed())
			c.Expect(l.Set(t.Context(), makePlan("search", 6), plan.SetOptions{})).To(Succeed())
			before := c.header()
			var watchers []*replica
			for _, name := range []string{"a", "b"}[:replicas] {
				r := c.watch(name)
				c.Eventually(r.plans).Should(Equal(2))
				watchers = append(watchers, r)
			}
			c.restore(old)
			c.Eventually(func() epoch { return c.header().epoch }).ShouldNot(Equal(before.epoch))
			for _, r := range watchers {
				c.Eventually(r.revision).Should(BeNumerically(">", before.revision))
				c.Expect(r.fewestPlans()).To(Equal(2))
				c.Expect(r.threshold("shop/login")).To(BeEquivalentTo(6))
			}
		})
	}
}

func TestBackupOfAnEarlierEpochIsNotLoaded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	old, first := c.backup(), c.header()
	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(r.revision).Should(BeNumerically(">", first.revision))
	c.Expect(l.Set(t.Context(), makePlan("search", 6), plan.SetOptions{})).To(Succeed())
	c.Eventually(r.plans).Should(Equal(2))

	// The leader that wrote the later epoch is gone, and its successor trusts the backup.
	// Only the replica has seen the later epoch.
	l.stop()
	<-l.done
	c.restore(old)
	c.Eventually(r.isFollowing).Should(BeFalse())
	next := c.lead(testOwner)
	c.Eventually(next.Err).Should(Succeed())
	_ = next.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})
	_ = next.Set(t.Context(), makePlan("search", 6), plan.SetOptions{})
	next.MarkSynced(c.tb.Context())
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(6))
	c.Expect(r.plans()).To(Equal(2))
	c.Expect(r.threshold("shop/search")).To(BeEquivalentTo(6))
}

// A failover may lose the newest revision, and another leader may then write other plans
// under the same revision number.
func TestOtherHistoryIsNotLoaded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(2))
	old := c.backup()
	c.Expect(l.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(Succeed())
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(6))
	l.stop()
	<-l.done

	// The leader republishes for a replica that rejects the registry only once it has all
	// plans.
	c.restore(old)
	next := c.lead(testOwner)
	c.Eventually(next.Err).Should(Succeed())
	used := r.snapshot()
	for _, threshold := range []int64{7, 8} {
		c.Expect(next.Set(t.Context(), makePlan("search", threshold), plan.SetOptions{})).To(Succeed())
		c.Consistently(r.snapshot).WithTimeout(period + 200*time.Millisecond).Should(BeIdenticalTo(used))
		c.Expect(r.isFollowing()).To(BeFalse())
	}
	c.Expect(next.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(Succeed())
	next.MarkSynced(c.tb.Context())
	c.Eventually(r.threshold).WithArguments("shop/search").Should(BeEquivalentTo(8))
	c.Expect(r.threshold("shop/login")).To(BeEquivalentTo(6))
	c.Eventually(r.isFollowing).Should(BeTrue())
}

// A failover that is reverted restores the plans that the replica already runs.
func TestReplicaFollowsTheRegistryItRanBefore(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	old := c.backup()
	c.Expect(l.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(Succeed())
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	l.stop()
	<-l.done
	current := c.backup()
	rejectedEpoch := func() epoch {
		alive, err := c.aliveNow()
		c.Expect(err).NotTo(HaveOccurred())
		i := slices.IndexFunc(alive, func(r heartbeat) bool { return r.Kind == kindReplica && r.Name == "a" })
		c.Expect(i).NotTo(Equal(-1))
		return alive[i].Rejects
	}
	c.restore(old)
	c.Eventually(rejectedEpoch).Should(Equal(c.header().epoch))
	c.restore(current)
	c.Eventually(rejectedEpoch).Should(BeEmpty())
	c.Expect(r.isFollowing()).To(BeTrue())
}

// The clock of the server may be behind after a failover. Replicas report their epoch, so
// the next one is still later.
func TestEpochsRiseWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	server, clock := testenv.StartRedisWithClock(t)
	c := newClusterOn(t, server)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	before := c.header()
	l.stop()
	<-l.done
	clock.Advance(-time.Hour)
	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(func() int64 { return c.client.HLen(t.Context(), c.scripts.keys[3]).Val() }).Should(BeEquivalentTo(1))

	c.leadSynced(makePlan("login", 6))
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(6))
	c.Expect(c.header().epoch.stamp()).To(BeNumerically(">", before.epoch.stamp()))
}

func TestEvictedRegistryIsNotLoadedAsEmpty(t *testing.T) {
	t.Parallel()
	for i, evicted := range []string{"plans", "meta"} {
		t.Run(evicted, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.leadSynced(makePlans(3)...)
			r := c.watch("a")
			c.Eventually(r.plans).Should(Equal(3))
			before := c.header()
			c.Expect(c.client.Del(t.Context(), c.scripts.keys[i]).Err()).To(Succeed())
			c.Eventually(r.revision).Should(BeNumerically(">", before.revision))
			c.Expect(r.fewestPlans()).To(Equal(3))
		})
	}
}

func TestFirstEpochWaitsForAllPlans(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	r := c.watch("a")
	l := c.lead(testOwner)
	c.Expect(l.Set(t.Context(), makePlan("login", 5), plan.SetOptions{})).To(Succeed(), "the plan is recorded")
	c.Expect(l.Delete(t.Context(), "shop/gone")).To(Succeed())
	c.Expect(r.plans()).To(Equal(-1), "a registry without an epoch is not loaded")
	c.Expect(programmed(l, "shop/login")).To(BeFalse())
	c.Expect(l.Rollout("shop/login")).To(Equal(plan.Rollout{Reachable: true}))
	_, err := l.replicas()
	c.Expect(err).To(MatchError(ErrEpochLost))
	c.Expect(l.Err()).To(MatchError(ErrEpochLost))

	l.MarkSynced(c.tb.Context())
	c.Eventually(r.plans).Should(Equal(1))
	c.Eventually(programmed).WithArguments(l, "shop/login").Should(BeTrue())
}

func TestEmptyInstallationHasAnEpoch(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.leadSynced()
	r := c.watch("a")
	c.Eventually(r.plans).Should(BeZero())
}

// setWantedPlans makes the leader want the plans without publishing each.
func (c *cluster) setWantedPlans(l *leader, plans []plan.Record) {
	c.tb.Helper()
	for _, p := range plans {
		l.setDesired(c.tb.Context(), p.ID(), encoded(c, p), plan.SetOptions{}) //nolint:errcheck // the leader leads
	}
}

func makeLargePlans(n int) []plan.Record {
	plans := makePlans(n)
	for _, r := range plans {
		r.(*plan.Plan).Denial.Message = strings.Repeat("x", 1500)
	}
	return plans
}

func TestManyPlansAreOneRevision(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	plans := makeLargePlans(5000)
	l := c.lead(testOwner)
	c.setWantedPlans(l, plans)
	l.MarkSynced(c.tb.Context())
	c.Eventually(l.Err).Should(Succeed())
	c.Expect(c.header().revision).To(BeEquivalentTo(1))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(len(plans)))

	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(func() epoch { return c.header().epoch }).ShouldNot(BeEmpty())
	c.Expect(c.header().revision).To(BeEquivalentTo(2))
	c.Eventually(r.revision).Should(BeEquivalentTo(2))
	c.Expect(r.fewestPlans()).To(Equal(len(plans)))
}

// The set of changes has room for fewer changes than this revision has.
func TestRevisionWithManyChangesIsLoaded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	plans := makeLargePlans(5000)
	l := c.lead(testOwner)
	c.setWantedPlans(l, plans)
	l.MarkSynced(c.tb.Context())
	c.Eventually(l.Err).Should(Succeed())
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(len(plans)))
	before := r.snapshot()
	for _, p := range plans {
		p.(*plan.Plan).Generation++
	}
	c.setWantedPlans(l, plans)
	c.Expect(l.Set(t.Context(), makePlan("p0", 9), plan.SetOptions{})).To(Succeed())
	c.Eventually(r.threshold).WithArguments("shop/p0").Should(BeEquivalentTo(9))
	c.Expect(r.snapshot().Lookup("shop/p4999")).NotTo(BeIdenticalTo(before.Lookup("shop/p4999")))
	c.Expect(c.client.ZCard(t.Context(), c.scripts.keys[2]).Val()).To(BeEquivalentTo(rememberedChanges))
}

func TestRedisRestartedEmptyIsFilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))

	c.redis.Stop()
	c.Expect(l.Set(t.Context(), makePlan("search", 5), plan.SetOptions{})).To(MatchError(ContainSubstring("redis: ")))
	c.Expect(l.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(MatchError(ContainSubstring("redis: ")))
	c.Expect(l.Err()).To(HaveOccurred())
	c.Eventually(r.isFollowing).Should(BeFalse())
	c.Expect(r.plans()).To(Equal(1))

	c.redis.Start()
	c.Eventually(r.plans).Should(Equal(2))
	c.Expect(r.threshold("shop/login")).To(BeEquivalentTo(6))
	c.Expect(r.fewestPlans()).To(Equal(1))
	c.Eventually(l.Err).Should(Succeed())
}

func TestWriteWithLostReplyIsAppliedOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	before := c.header()
	c.redis.Pause()
	c.Expect(l.Set(t.Context(), makePlan("search", 5), plan.SetOptions{})).To(MatchError(ContainSubstring("redis: ")))
	c.redis.Resume()
	c.Eventually(programmed).WithArguments(l, "shop/search").Should(BeTrue())
	c.Eventually(r.plans).Should(Equal(2))
	c.Expect(c.header().epoch).To(Equal(before.epoch))
	c.Expect(c.header().revision).To(Equal(before.revision + 1))
}
