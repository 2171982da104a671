// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestSetReachesEveryReplica(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	a, b := c.watch("a"), c.watch("b")
	for _, r := range []*replica{a, b} {
		c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(5))
	}

	c.Expect(l.Set(t.Context(), makePlan("search", 7))).To(Succeed())
	revision, ok := l.programmed("shop/search")
	c.Expect(ok).To(BeTrue())
	for _, r := range []*replica{a, b} {
		c.Eventually(r.revision).Should(Equal(revision))
		c.Expect(r.threshold("shop/search")).To(BeEquivalentTo(7))
	}
}

func TestSetKeepsUnchangedPlans(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(5))
	login := r.snapshot().Lookup("shop/login")
	c.Expect(l.Set(t.Context(), makePlan("search", 7))).To(Succeed())
	c.Eventually(r.plans).Should(Equal(2))
	c.Expect(r.snapshot().Lookup("shop/login")).To(BeIdenticalTo(login))
}

func TestDeleteReachesEveryReplica(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	a, b := c.watch("a"), c.watch("b")
	for _, r := range []*replica{a, b} {
		c.Eventually(r.plans).Should(Equal(2))
	}
	c.Expect(l.Delete(t.Context(), "shop/login")).To(Succeed())
	c.Expect(programmed(l, "shop/login")).To(BeFalse())
	c.Expect(l.Delete(t.Context(), "shop/login")).To(Succeed(), "deleting again succeeds")
	for _, r := range []*replica{a, b} {
		c.Eventually(r.plans).Should(Equal(1))
	}
}

func TestSetOfAnEqualPlanWritesNoRevision(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	before := c.header()
	c.Expect(l.Set(t.Context(), makePlan("login", 5))).To(Succeed())
	c.Expect(c.header().version).To(Equal(before.version))
}

func TestNextLeaderInheritsEqualPlans(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	before := c.header()
	l.stop()
	<-l.done
	next := c.leadSynced(makePlan("login", 5))
	c.Expect(programmed(next, "shop/login")).To(BeTrue())
	c.Expect(c.header().version).To(Equal(before.version))
}

func TestConcurrentSetsShareRevisions(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced()
	r := c.watch("a")
	before := c.header().revision
	const sets = 200
	var wg sync.WaitGroup
	for i := range sets {
		wg.Go(func() {
			if err := l.Set(t.Context(), makePlan(fmt.Sprintf("p%d", i), 5)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c.Expect(c.header().revision - before).To(BeNumerically("<", sets/2))
	c.Eventually(r.plans).Should(Equal(sets))
	c.Expect(c.header().revision).To(Equal(r.revision()))
}

func TestSetRejectsAnOlderGeneration(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	err := l.Set(t.Context(), makePlan("login", 4))
	c.Expect(err).To(MatchError(ErrOlderGeneration))
	c.Expect(err).To(MatchError(ContainSubstring("publish plan shop/login: generation 4 after 5")))
}

func TestSetTakesAnyGenerationOfANewObject(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	recreated := makePlan("login", 4)
	recreated.UID = "another"
	c.Expect(l.Set(t.Context(), recreated)).To(Succeed())
	r := c.watch("a")
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(4))
}

func TestWriterNeedsToLead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := NewWriter(c.client, testPrefix, WriterOptions{Installation: NewInstallation(testOwner, "")})
	c.Expect(w.Set(t.Context(), makePlan("login", 5))).To(MatchError(ErrNotLeading))
	c.Expect(w.Delete(t.Context(), "shop/login")).To(MatchError(ErrNotLeading))
	c.Expect(w.Sweep(t.Context(), func(string) bool { return true })).To(MatchError(ErrNotLeading))
	c.Expect(w.Rollout("shop/login")).To(Equal(plan.Rollout{}))
	_, err := w.replicas()
	c.Expect(err).To(MatchError(ErrNotLeading))
}

func TestStoppedLeaderRejectsSet(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced()
	l.stop()
	<-l.done
	c.Expect(l.err).NotTo(HaveOccurred())
	c.Expect(l.Set(t.Context(), makePlan("login", 5))).To(MatchError(ErrNotLeading))
}

func TestSetRejectsAPlanTooLargeToEncode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced()
	huge := makePlan("login", 5)
	huge.Denial.Message = strings.Repeat("x", plan.MaxEncodedBytes)
	c.Expect(l.Set(t.Context(), huge)).To(MatchError(ContainSubstring("at most")))
	c.Expect(l.Err()).NotTo(HaveOccurred())
}

func TestSetEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced()
	c.redis.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Expect(l.Set(ctx, makePlan("login", 5))).To(MatchError(context.Canceled))
	c.redis.Resume()
	c.Eventually(programmed).WithArguments(l, "shop/login").Should(BeTrue(), "the leader publishes the plan later")
}

func TestSweepDeletesPlansWithoutPolicy(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.leadSynced(makePlan("kept", 5), makePlan("live", 5), makePlan("orphan", 5), makePlan("gone", 5))
	r := c.watch("a")
	first.stop()
	<-first.done

	l := c.lead(testOwner)
	c.Expect(l.Set(t.Context(), makePlan("kept", 5))).To(Succeed())
	c.Expect(programmed(l, "shop/live")).To(BeTrue(), "the leader inherits the last good plan of a policy")
	l.MarkSynced()
	live := func(id string) bool { return id == "shop/live" }
	swept := func() float64 { return testutil.ToFloat64(l.metrics.orphans) }
	c.Expect(l.Sweep(t.Context(), live)).To(Succeed())
	c.Expect(swept()).To(BeEquivalentTo(2))
	c.Expect(c.client.HKeys(t.Context(), c.scripts.keys[0]).Val()).To(ConsistOf("shop/kept", "shop/live"))
	c.Eventually(r.plans).Should(Equal(2))
	c.Expect(l.Sweep(t.Context(), live)).To(Succeed())
	c.Expect(swept()).To(BeEquivalentTo(2), "nothing is left to sweep")
}

func TestRolloutReportsThePlanAndItsReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	login := makePlan("login", 5)
	l := c.leadSynced(login)
	c.Expect(l.Rollout("shop/login")).To(Equal(plan.Rollout{Reachable: true, Plan: login}))
	c.watch("a")
	c.Eventually(l.Rollout).WithArguments("shop/login").Should(Equal(plan.Rollout{
		Reachable: true, Plan: login, HasReplicas: true, AllReplicasCurrent: true,
	}))
	c.Expect(l.Rollout("shop/unknown")).To(Equal(plan.Rollout{Reachable: true, HasReplicas: true}))
}

func (l *leader) enforcedCounts(id string) []int {
	running, live := l.enforced(id)
	return []int{running, live}
}

func TestEnforcedCountsReplicasThatRunThePlan(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	c.Expect(l.enforcedCounts("shop/login")).To(Equal([]int{0, 0}))
	c.watch("a")
	c.watch("b")
	c.Eventually(l.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	c.Expect(l.enforcedCounts("shop/unknown")).To(Equal([]int{0, 2}))
}

func TestChangesSignalsTheRolloutOfAnEdit(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	c.watch("a")
	c.watch("b")
	c.Eventually(l.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	for len(l.Changes()) > 0 {
		<-l.Changes()
	}
	c.Expect(l.Set(t.Context(), makePlan("login", 6))).To(Succeed())
	c.Eventually(l.Changes()).Should(Receive())
	c.Eventually(l.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
}

func TestLeaderListsReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	a := c.watch("a")
	c.watch("b")
	c.Eventually(l.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	replicas, err := l.replicas()
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(replicas).To(HaveLen(2))
	c.Expect(replicas[0].Name).To(Equal("a"))
	c.Expect(replicas[0].Revision).To(Equal(a.revision()))
	c.Expect(replicas[0].Epoch).To(HavePrefix(testOwner + "/"))
}

func TestMetricsOfWriterAndWatcherShareARegistry(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	metrics := prometheus.NewPedanticRegistry()
	NewWriter(nil, testPrefix, WriterOptions{Installation: NewInstallation(testOwner, ""), Registerer: metrics})
	NewWatcher(nil, testPrefix, WatcherOptions{Installation: NewInstallation(testOwner, ""), Replica: "a", Registerer: metrics})
	problems, err := testutil.GatherAndLint(metrics)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problems).To(BeEmpty())
	families, err := metrics.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		g.Expect(family.GetName()).To(MatchRegexp("^weir_(registry_|leader$|snapshot_bytes$)"))
	}
}
