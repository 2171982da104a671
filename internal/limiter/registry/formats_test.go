// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build weir_next_version

package registry

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The release before this one, whose version the build tag has raised.
var (
	before     = formatsOf(plan.Version - 1)
	ours       = NewInstallation(testOwner, "")
	inNext     = supported[0].keys(testPrefix)
	inPrevious = supported[1].keys(testPrefix)
)

func (c *cluster) exists(keys []string) func() bool {
	return func() bool { return c.client.Exists(c.tb.Context(), keys[0]).Val() == 1 }
}

// leadBriefIn starts a leader that soon deletes a format which no process needs.
func (c *cluster) leadBriefIn(formats []format) *leader {
	c.tb.Helper()
	w := c.newWriterIn(formats, ours)
	w.obsoleteAfter = 4 * time.Second
	return c.leadBy(w)
}

// leadSyncedIn leads like a release that supports these formats.
func (c *cluster) leadSyncedIn(formats []format, plans ...plan.Record) *leader {
	c.tb.Helper()
	l := c.leadBriefIn(formats)
	for _, p := range plans {
		_ = l.Set(c.tb.Context(), p, plan.SetOptions{})
	}
	l.MarkSynced(c.tb.Context())
	c.Eventually(l.Err).Should(Succeed())
	return l
}

func (l *leader) end() { l.stop(); <-l.done }

func TestRolloutRaisesTheVersion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	old := c.leadSyncedIn(before, makePlan("login", 5), makePlan("search", 5))
	a := c.watchIn(before, "a", ours)
	b := c.watchIn(supported, "b", ours)
	c.Eventually(old.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	c.Expect(c.exists(inNext)()).To(BeFalse())

	old.end()
	next := c.leadBriefIn(supported)
	c.Eventually(next.Err).Should(MatchError(ErrEpochLost), "the next version awaits all plans")
	c.Expect(next.Rollout("shop/search").Plan()).NotTo(BeNil(), "the inherited plans count as programmed")
	c.Expect(next.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(Succeed())
	c.Eventually(next.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}), "edits do not wait")
	c.Expect(next.Set(t.Context(), makePlan("search", 5), plan.SetOptions{})).To(Succeed())
	next.MarkSynced(c.tb.Context())
	c.Eventually(next.Err).Should(Succeed())
	c.Eventually(c.exists(inNext)).Should(BeTrue())
	c.Expect(next.Set(t.Context(), makePlan("login", 7), plan.SetOptions{})).To(Succeed())
	c.Eventually(next.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	c.Expect([]int64{a.threshold("shop/login"), b.threshold("shop/login")}).To(Equal([]int64{7, 7}))
	c.Eventually(func() []format { return []format{c.followed("a"), c.followed("b")} }).Should(Equal([]format{supported[1], supported[0]}))

	a.stop()
	<-a.done
	c.Consistently(c.exists(inPrevious)).WithTimeout(2 * time.Second).Should(BeTrue())
	c.Eventually(c.exists(inPrevious)).Should(BeFalse(), "no process needs it any more")
	c.Expect([]int{a.fewestPlans(), b.fewestPlans()}).To(Equal([]int{2, 2}))
	c.Expect(next.Set(t.Context(), makePlan("login", 8), plan.SetOptions{})).To(Succeed())
	c.Eventually(b.threshold).WithArguments("shop/login").Should(BeEquivalentTo(8))
}

func TestRollbackLowersTheVersion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	next := c.leadSyncedIn(supported, makePlan("login", 5), makePlan("search", 5))
	b := c.watchIn(supported, "b", ours)
	c.Eventually(next.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{1, 1}))
	c.Expect(c.exists(inPrevious)()).To(BeFalse())

	a := c.watchIn(before, "a", ours)
	c.Eventually(next.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	c.Expect(c.exists(inPrevious)()).To(BeTrue())
	next.end()
	old := c.leadSyncedIn(before, makePlan("login", 6), makePlan("search", 5))
	c.Eventually(old.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	c.Eventually(func() []format { return []format{c.followed("a"), c.followed("b")} }).Should(Equal([]format{supported[1], supported[1]}))
	c.Expect([]int64{a.threshold("shop/login"), b.threshold("shop/login")}).To(Equal([]int64{6, 6}))
	c.Expect([]int{a.fewestPlans(), b.fewestPlans()}).To(Equal([]int{2, 2}))
	c.Eventually(c.exists(inNext)).Should(BeFalse(), "the earlier release deletes what it cannot maintain")

	// And forward again: what was left of the version is not trusted.
	old.end()
	next = c.leadSyncedIn(supported, makePlan("login", 7), makePlan("search", 5))
	c.Eventually(next.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	c.Eventually(c.followed).WithArguments("b").Should(Equal(supported[0]))
	c.Expect([]int{a.fewestPlans(), b.fewestPlans()}).To(Equal([]int{2, 2}))
}

func TestPlanThatTheVersionBeforeCannotExpress(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	novel := makePlan("novel", 5)
	novel.Mode = plan.ModeShadow
	novel.Key = []plan.KeyPart{{Type: plan.KeyPrincipal}}
	novel.Overrides = []plan.Override{{Name: "all", Keys: []string{"k"}, Action: plan.ActionAllow}}
	l := c.leadSyncedIn(supported, makePlan("login", 5), novel)
	b := c.watchIn(supported, "b", ours)
	c.Eventually(b.plans).Should(Equal(2))
	a := c.watchIn(before, "a", ours)
	c.Eventually(a.plans).Should(Equal(1))
	c.Eventually(func() bool { return l.Rollout("shop/novel").ReplicasTooOld }).Should(BeTrue())
	rollout := l.Rollout("shop/novel")
	c.Expect(rollout.Plan()).NotTo(BeNil())
	c.Expect(rollout.AllReplicasCurrent).To(BeFalse())
	c.Expect(l.Rollout("shop/login").ReplicasTooOld).To(BeFalse())
	c.Expect(l.Rollout("shop/login").AllReplicasCurrent).To(BeTrue())

	c.Expect(l.Set(t.Context(), makePlan("novel", 6), plan.SetOptions{})).To(Succeed())
	c.Eventually(l.enforcedCounts).WithArguments("shop/novel").Should(Equal([]int{2, 2}))
	c.Expect(l.Rollout("shop/novel").ReplicasTooOld).To(BeFalse())
	novel.Generation = 7
	c.Expect(l.Set(t.Context(), novel, plan.SetOptions{})).To(Succeed())
	c.Eventually(a.plans).Should(Equal(1), "its last form has another mode")
	a.stop()
	<-a.done
	c.Eventually(l.enforcedCounts).WithArguments("shop/novel").Should(Equal([]int{1, 1}))
}

// A replica of the release before keeps the last plan of a policy whose edit its version cannot express.
func TestLastPlanStaysInTheVersionBefore(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shadow := func(threshold int64, overrides ...plan.Override) *plan.Plan {
		p := makePlan("novel", threshold)
		p.Mode, p.Key, p.Overrides = plan.ModeShadow, []plan.KeyPart{{Type: plan.KeyPrincipal}}, overrides
		return p
	}
	inexpressible := func(threshold int64) *plan.Plan {
		return shadow(threshold, plan.Override{Name: "all", Keys: []string{"k"}, Action: plan.ActionAllow})
	}
	l := c.leadSyncedIn(supported, makePlan("login", 5), shadow(5))
	a, b := c.watchIn(before, "a", ours), c.watchIn(supported, "b", ours)
	c.Eventually(l.enforcedCounts).WithArguments("shop/novel").Should(Equal([]int{2, 2}))
	stays := func(l *leader, latest int64) {
		t.Helper()
		c.Eventually(b.threshold).WithArguments("shop/novel").Should(Equal(latest))
		c.Eventually(func() bool { return l.Rollout("shop/novel").ReplicasTooOld }).Should(BeTrue())
		c.Eventually(l.enforcedCounts).WithArguments("shop/novel").Should(Equal([]int{1, 2}), "the last plan does not count")
		c.Expect([]int{a.fewestPlans(), b.fewestPlans()}).To(Equal([]int{2, 2}))
		c.Expect(a.threshold("shop/novel")).To(BeEquivalentTo(5))
	}
	c.Expect(l.Set(t.Context(), inexpressible(6), plan.SetOptions{})).To(Succeed())
	stays(l, 6)
	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(c.exists(inPrevious)).Should(BeTrue())
	stays(l, 6)

	l.end()
	l = c.leadSyncedIn(supported, makePlan("login", 5), inexpressible(6))
	stays(l, 6)
	c.Expect(l.Set(t.Context(), inexpressible(7), plan.SetOptions{})).To(Succeed())
	stays(l, 7)

	l.end()
	l = c.leadSyncedIn(before, makePlan("login", 5)) // it does not accept the policy
	c.Eventually(func() format { return c.followed("b") }).Should(Equal(supported[1]))
	c.Eventually(b.threshold).WithArguments("shop/novel").Should(BeEquivalentTo(5), "after a rollback the last plan stays")
	l.end()

	l = c.leadSyncedIn(supported, makePlan("login", 5), inexpressible(8))
	stays(l, 8)
	c.Expect(l.Set(t.Context(), shadow(9), plan.SetOptions{})).To(Succeed())
	c.Eventually(l.enforcedCounts).WithArguments("shop/novel").Should(Equal([]int{2, 2}))
	c.Expect(a.threshold("shop/novel")).To(BeEquivalentTo(9))
	c.Expect(l.Set(t.Context(), inexpressible(10), plan.SetOptions{})).To(Succeed())
	again := inexpressible(1)
	again.UID = "uid-of-another-object"
	c.Expect(l.Set(t.Context(), again, plan.SetOptions{})).To(Succeed())
	c.Eventually(a.plans).Should(Equal(1), "the plan of another object does not stay")
}

func TestWipedRegistryIsPublishedInEveryVersion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSyncedIn(supported, makePlans(10)...)
	a, b := c.watchIn(before, "a", ours), c.watchIn(supported, "b", ours)
	c.Eventually(l.enforcedCounts).WithArguments("shop/p1").Should(Equal([]int{2, 2}))
	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(c.exists(inNext)).Should(BeTrue())
	c.Eventually(c.exists(inPrevious)).Should(BeTrue())
	c.Eventually(l.enforcedCounts).WithArguments("shop/p1").Should(Equal([]int{2, 2}))
	c.Expect([]int{a.fewestPlans(), b.fewestPlans()}).To(Equal([]int{10, 10}))
	c.Expect(l.Set(t.Context(), makePlan("p1", 9), plan.SetOptions{})).To(Succeed())
	c.Eventually(l.enforcedCounts).WithArguments("shop/p1").Should(Equal([]int{2, 2}))
}

// A record of formats names keys to delete, and may be damaged.
func TestOnlyKeysOfTheRegistryAreDeleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSyncedIn(supported, makePlan("login", 5))
	c.Expect(l.ownKeys([]string{
		"weir-test:9:{registry}", "other:9:{registry}", "weir-test:1:c:{x}", "weir-test:{registry}:term", "weir-test:{registry}:processes",
	})).To(Equal([]string{"weir-test:9:{registry}"}))
}

// followed returns the format that the replica reports.
func (c *cluster) followed(name string) format {
	alive, err := c.aliveNow()
	c.Expect(err).NotTo(HaveOccurred())
	for _, r := range alive {
		if r.Name == name {
			return r.Format
		}
	}
	return 0
}
