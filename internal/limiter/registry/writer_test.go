// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

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

	c.Expect(l.Set(t.Context(), makePlan("search", 7), plan.SetOptions{})).To(Succeed())
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
	c.Expect(l.Set(t.Context(), makePlan("search", 7), plan.SetOptions{})).To(Succeed())
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
	c.Expect(l.Set(t.Context(), makePlan("login", 5), plan.SetOptions{})).To(Succeed())
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
			if err := l.Set(t.Context(), makePlan(fmt.Sprintf("p%d", i), 5), plan.SetOptions{}); err != nil {
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
	err := l.Set(t.Context(), makePlan("login", 4), plan.SetOptions{})
	c.Expect(err).To(MatchError(plan.ErrOlderGeneration))
	c.Expect(err).To(MatchError(ContainSubstring("publish plan shop/login: generation 4 after 5")))
}

func TestSetTakesAnyGenerationOfANewObject(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	recreated := makePlan("login", 4)
	recreated.UID = "another"
	c.Expect(l.Set(t.Context(), recreated, plan.SetOptions{})).To(Succeed())
	r := c.watch("a")
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(4))
}

func TestWriterNeedsToLead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := NewWriter(c.client, testPrefix, WriterOptions{Installation: NewInstallation(testOwner, "")})
	c.Expect(w.Set(t.Context(), makePlan("login", 5), plan.SetOptions{})).To(MatchError(ErrNotLeading))
	c.Expect(w.Delete(t.Context(), "shop/login")).To(MatchError(ErrNotLeading))
	c.Expect(w.Sweep(t.Context(), func(context.Context, string) (bool, error) { return true, nil })).To(MatchError(ErrNotLeading))
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
	c.Expect(l.Set(t.Context(), makePlan("login", 5), plan.SetOptions{})).To(MatchError(ErrNotLeading))
}

func TestSetRejectsAPlanTooLargeToEncode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced()
	huge := makePlan("login", 5)
	huge.Denial.Message = strings.Repeat("x", plan.MaxEncodedBytes)
	c.Expect(l.Set(t.Context(), huge, plan.SetOptions{})).To(MatchError(ContainSubstring("at most")))
	c.Expect(l.Err()).NotTo(HaveOccurred())
}

func TestSetEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 4))
	c.redis.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	c.Expect(l.Set(ctx, makePlan("login", 5), plan.SetOptions{})).To(MatchError(context.DeadlineExceeded))
	c.redis.Resume()
	stored := func() int64 { return l.Rollout("shop/login").Plan().Generation }
	c.Eventually(stored).Should(BeEquivalentTo(5), "the leader publishes the plan later")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	c.Expect(l.Set(gone, makePlan("login", 6), plan.SetOptions{})).To(MatchError(context.Canceled))
	c.Expect(l.Set(t.Context(), makePlan("search", 1), plan.SetOptions{})).To(Succeed())
	c.Expect(stored()).To(BeEquivalentTo(5), "a Set after the end of its context has no effect")
}

// A caller whose term has ended must not write into the next term.
func TestNoCallOfTheLastTermEndsInTheNext(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.lead(testOwner)
	c.Eventually(l.Err).Should(MatchError(ErrEpochLost))
	last, end := context.WithCancel(t.Context())
	end()
	c.Expect(l.Set(last, makePlan("login", 5), plan.SetOptions{})).To(MatchError(context.Canceled))
	c.Expect(l.Delete(last, "shop/login")).To(MatchError(context.Canceled))
	c.Expect(l.Sweep(last, noneLive)).To(MatchError(context.Canceled))
	l.MarkSynced(last)
	c.Expect(l.Set(t.Context(), makePlan("search", 5), plan.SetOptions{})).To(Succeed())
	c.Expect(l.Err()).To(MatchError(ErrEpochLost), "the last term must not complete the next")
	l.MarkSynced(t.Context())
	c.Eventually(l.Err).Should(Succeed())
	c.Expect(c.client.HKeys(t.Context(), c.scripts.keys[0]).Val()).To(ConsistOf("shop/search"))
}

// Otherwise every call waits for a timeout of Redis.
func TestCallsFailFastWhileRedisHangs(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlans(10)...)
	c.redis.Pause()
	began := time.Now()
	c.Expect(l.Set(t.Context(), makePlan("first", 5), plan.SetOptions{})).NotTo(Succeed(), "the first call notices")
	timeout := time.Since(began)
	for i := range 500 {
		c.Expect(l.Set(t.Context(), makePlan(fmt.Sprintf("hung%d", i), 5), plan.SetOptions{})).NotTo(Succeed())
		c.Expect(l.Delete(t.Context(), fmt.Sprintf("shop/p%d", i))).NotTo(Succeed())
		c.Expect(l.Sweep(t.Context(), noneLive)).NotTo(Succeed())
	}
	c.Expect(time.Since(began)).To(BeNumerically("<", 10*timeout), "the other 1500 calls do not wait")
	c.redis.Resume()
	c.Eventually(l.Err).Should(Succeed())
	c.Eventually(func() int { return len(c.client.HKeys(t.Context(), c.scripts.keys[0]).Val()) }).Should(
		Equal(501), "what was asked is written")
	c.Expect(l.Set(t.Context(), makePlan("last", 5), plan.SetOptions{})).To(Succeed())
}

func TestSetRestoredTakesALowerGeneration(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	c.Expect(l.Set(t.Context(), makePlan("login", 4), plan.SetOptions{Restored: true})).To(Succeed())
	c.Expect(l.Rollout("shop/login").Plan().Generation).To(BeEquivalentTo(4))
	c.Expect(l.Set(t.Context(), makePlan("login", 5), plan.SetOptions{})).To(Succeed(), "and later ones count again")
}

func TestRolloutReportsThePlanAndItsReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	login := makePlan("login", 5)
	l := c.leadSynced(login)
	c.Expect(l.Rollout("shop/login")).To(Equal(plan.Rollout{Reachable: true, Record: login}))
	c.watch("a")
	c.Eventually(l.Rollout).WithArguments("shop/login").Should(Equal(plan.Rollout{
		Reachable: true, Record: login, HasReplicas: true, AllReplicasCurrent: true,
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
	c.Expect(l.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(Succeed())
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
		g.Expect(family.GetName()).To(MatchRegexp("^weir_(registry_|leader$|snapshot_bytes$|(namespace_)?budget_)"))
	}
}
