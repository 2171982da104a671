// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestReplicaLoadsARevisionWhoseMessageIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(2))
	l.stop()
	<-l.done
	before := c.header()
	c.writeWithoutMessage(l, makePlan("login", 6), false)
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(6))
	c.Expect(r.revision()).To(Equal(before.revision + 1))
}

func TestReplicaRejectsARevisionWhoseChangesAreLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(2))
	l.stop()
	<-l.done
	used := r.snapshot()
	c.writeWithoutMessage(l, makePlan("login", 6), true)
	c.Eventually(r.isFollowing).Should(BeFalse())
	c.Expect(r.snapshot()).To(BeIdenticalTo(used))
	c.Expect(r.threshold("shop/login")).To(BeEquivalentTo(5))

	c.leadSynced(makePlan("login", 6), makePlan("search", 5))
	c.Eventually(r.isFollowing).Should(BeTrue())
	c.Expect(r.threshold("shop/login")).To(BeEquivalentTo(6))
}

// writeWithoutMessage publishes the plan in place of the leader, which must have ended,
// and sends no message. With loseChanges it also deletes the set of changes.
func (c *cluster) writeWithoutMessage(l *leader, p *plan.Plan, loseChanges bool) {
	c.tb.Helper()
	before := c.header()
	old, err := c.client.HGet(c.tb.Context(), c.scripts.keys[0], p.ID()).Result()
	c.Expect(err).NotTo(HaveOccurred())
	sum, err := strconv.ParseUint(before.digest, 16, 64)
	c.Expect(err).NotTo(HaveOccurred())
	data := encoded(c, p).data
	to := before.version
	to.revision++
	to.digest = formatDigest(sum - digestOf(p.ID(), []byte(old)) + digestOf(p.ID(), data))
	w := &write{from: before.version, to: to, changes: map[string][]byte{p.ID(): data}, count: len(l.entries)}
	args, _ := w.arguments(before.term, before.holder)

	prelude, err := sources.ReadFile("prelude.lua")
	c.Expect(err).NotTo(HaveOccurred())
	publish, err := sources.ReadFile("publish.lua")
	c.Expect(err).NotTo(HaveOccurred())
	source := string(prelude) + string(publish)
	quiet := strings.Replace(source, "call('PUBLISH'", "local _ = tostring('PUBLISH'", 1)
	c.Expect(quiet).NotTo(Equal(source))
	_, err = c.client.TxPipelined(c.tb.Context(), func(tx redis.Pipeliner) error {
		tx.Eval(c.tb.Context(), quiet, c.scripts.keys, args...)
		if loseChanges {
			tx.Del(c.tb.Context(), c.scripts.keys[2])
		}
		return nil
	})
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(c.header().version).To(Equal(to))
}

func TestReplicaSubscribesAgainAfterADisconnect(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	for threshold := range int64(3) {
		killed, err := c.client.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result()
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(killed).To(BeEquivalentTo(1))
		c.Expect(l.Set(t.Context(), makePlan("login", 6+threshold), plan.SetOptions{})).To(Succeed())
		c.Eventually(r.threshold).WithArguments("shop/login").Should(Equal(6 + threshold))
		c.Eventually(func() int64 {
			return c.client.PubSubNumSub(t.Context(), c.scripts.channel()).Val()[c.scripts.channel()]
		}).Should(BeEquivalentTo(1))
	}
}

// publishBad publishes a replacement of shop/login and a new shop/other that this release
// cannot read, as a later release might write them.
func (l *leader) publishBad(c *cluster) {
	c.tb.Helper()
	l.publishRaw(c.tb, "shop/login", []byte(`{"version":99}`))
	l.publishRaw(c.tb, "shop/other", encoded(c, makePlan("search", 9)).data)
}

func TestReplicaSkipsBadPlans(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(2))
	l.publishBad(c)
	c.Expect(l.Set(t.Context(), makePlan("search", 6), plan.SetOptions{})).To(Succeed())
	c.Eventually(r.threshold).WithArguments("shop/search").Should(BeEquivalentTo(6))
	c.Expect(r.threshold("shop/login")).To(BeEquivalentTo(5), "the replica keeps the last good plan")
	c.Expect(r.snapshot().Lookup("shop/other")).To(BeNil(), "the replica rejects a plan under another id")
	skipped := r.snapshot().Skipped()
	c.Expect(skipped).To(HaveLen(2))
	c.Expect(skipped[0].Problem).To(ContainSubstring("version 99"))
	c.Expect(skipped[1].Problem).To(ContainSubstring("contains plan shop/search"))
	c.Expect([]string{skipped[0].ID, skipped[1].ID}).To(Equal([]string{"shop/login", "shop/other"}))
	c.Expect([]bool{skipped[0].LastGood, skipped[1].LastGood}).To(Equal([]bool{true, false}))
	c.Expect(testutil.ToFloat64(r.metrics.bad)).To(BeEquivalentTo(2))
}

func TestSkippedPlansAreNotEnforced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(2))
	l.publishBad(c)
	c.Eventually(func() (names [][]string) {
		replicas, _ := l.replicas()
		for i := range replicas {
			names = append(names, replicas[i].skips.names)
		}
		return names
	}).Should(Equal([][]string{{"shop/login", "shop/other"}}))
	running, live := l.enforced("shop/login")
	c.Expect([]int{running, live}).To(Equal([]int{0, 1}))
	c.Expect(l.Rollout("shop/login").AllReplicasCurrent).To(BeFalse())
	c.Expect(l.Rollout("shop/login").ReplicasTooOld).To(BeTrue())
	c.Expect(l.Rollout("shop/search").ReplicasTooOld).To(BeFalse())
}

func TestNewReplicaSkipsBadPlansUntilTheyAreReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	l.publishBad(c)
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	c.Expect(testutil.ToFloat64(r.metrics.bad)).To(BeEquivalentTo(2))
	c.Expect(l.Set(t.Context(), makePlan("login", 8), plan.SetOptions{})).To(Succeed())
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(8))
}

// publishRaw publishes data that Set would reject.
func (l *leader) publishRaw(tb testing.TB, id string, data []byte) {
	tb.Helper()
	b, err := l.setDesired(tb.Context(), id, &entry{data: data}, plan.SetOptions{})
	if err := l.await(tb.Context(), b, id, err); err != nil {
		tb.Fatal(err)
	}
}

func TestCorruptedPlanIsRepaired(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	early := c.watch("early")
	c.Eventually(early.plans).Should(Equal(2))
	c.Expect(c.client.HSet(t.Context(), c.scripts.keys[0], "shop/login", "garbage").Err()).To(Succeed())
	// Only a replica that loads the whole registry detects the corruption.
	late := c.watch("late")
	c.Eventually(late.plans).Should(Equal(1), "the replica uses the valid plan")
	c.Expect(testutil.ToFloat64(late.metrics.bad)).To(BeEquivalentTo(1))
	c.Eventually(late.plans).Should(Equal(2))
	c.Expect(early.fewestPlans()).To(Equal(2))
}

func TestReplicaAndLeaderStartWithoutRedis(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.redis.Stop()
	r := c.watch("a")
	l := c.lead(testOwner)
	c.Expect(l.Set(t.Context(), makePlan("login", 5), plan.SetOptions{})).To(MatchError(ContainSubstring("redis: ")))
	l.MarkSynced(c.tb.Context())
	c.redis.Start()
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(5))
	c.Eventually(l.Err).Should(Succeed())
}

func TestStoppedReplicaRemovesItsHeartbeat(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	a, b := c.watch("a"), c.watch("b")
	c.Eventually(l.names).Should(Equal([]string{"a", "b"}))
	c.Eventually(a.Replicas).WithContext(t.Context()).Should(HaveLen(2))
	b.stop()
	<-b.done
	c.Expect(c.processes()).To(ConsistOf(testOwner+"/replica/a", c.leaderField()))
	c.Eventually(l.names).Should(Equal([]string{"a"}))
	c.Eventually(a.Replicas).WithContext(t.Context()).Should(HaveLen(1))
}

func (l *leader) names() []string {
	var names []string
	replicas, _ := l.replicas()
	for _, r := range replicas {
		names = append(names, r.Name)
	}
	return names
}

func TestHeartbeatOfACrashedReplicaExpires(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced()
	_, _, err := c.scripts.heartbeat(t.Context(), &heartbeat{Owner: testOwner, Kind: kindReplica, Name: "crashed", Epoch: "x/1-x"})
	c.Expect(err).NotTo(HaveOccurred())
	c.Eventually(l.names).Should(Equal([]string{"crashed"}))
	c.Eventually(l.names).Should(BeEmpty())
	c.Expect(c.processes()).To(ConsistOf(c.leaderField()))
}

func TestHeartbeatFromTheFutureExpires(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.leadSynced()
	late := "99999999999999999 {}"
	c.Expect(c.client.HSet(t.Context(), c.scripts.keys[3], testOwner+"/replica/late", late).Err()).To(Succeed())
	c.Eventually(c.processes).Should(ConsistOf(c.leaderField()))
}

func TestReplicaWithoutSnapshotIsNotLive(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.lead(testOwner)
	c.watch("a")
	c.Consistently(l.names).WithTimeout(2 * period).Should(BeEmpty())
}

func TestReplicaKeepsItsSnapshotWithoutARegistry(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	l.stop()
	<-l.done
	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(r.isFollowing).Should(BeFalse())
	c.Expect(r.plans()).To(Equal(1))

	late := c.watch("late")
	c.Consistently(late.plans).WithTimeout(period).Should(Equal(-1))
	c.leadSynced(makePlan("login", 5))
	c.Eventually(late.plans).Should(Equal(1))
	c.Eventually(r.isFollowing).Should(BeTrue())
}

func TestMissingScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	c.Expect(c.client.ScriptFlush(t.Context()).Err()).To(Succeed())
	c.Expect(l.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(Succeed())
	c.Eventually(r.threshold).WithArguments("shop/login").Should(BeEquivalentTo(6))
}

func TestKeysShareOneSlot(t *testing.T) {
	g := NewWithT(t)
	s := newScripts(redis.NewClient(&redis.Options{}), "weir:", nil)
	g.Expect(s.keys).To(Equal([]string{
		"weir:1:{registry}", "weir:1:{registry}:meta", "weir:1:{registry}:changes",
		"weir:{registry}:processes", "weir:{registry}:term",
	}))
	g.Expect(slices.Contains(s.keys, s.channel())).To(BeTrue())
	g.Expect(s.client.Close()).To(Succeed())
}

func TestMetricsOfLeaderAndReplica(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(2))
	size := len(encoded(c, makePlan("login", 5)).data) + len(encoded(c, makePlan("search", 5)).data)
	c.Expect(testutil.ToFloat64(r.metrics.size)).To(BeEquivalentTo(size))
	c.Expect(l.Delete(t.Context(), "shop/search")).To(Succeed())
	c.Eventually(func() float64 { return testutil.ToFloat64(r.metrics.size) }).Should(BeNumerically("<", size))

	c.Expect(testutil.ToFloat64(l.metrics.leading)).To(BeEquivalentTo(1))
	c.Expect(testutil.ToFloat64(l.metrics.term)).To(BeEquivalentTo(c.header().term))
	c.Expect(testutil.ToFloat64(l.metrics.published)).To(BeNumerically("~", float64(time.Now().Unix()), 60))
	l.stop()
	<-l.done
	c.Expect(testutil.ToFloat64(l.metrics.leading)).To(BeZero())
}

func TestReplicasKnowWhichPoliciesAreNotReady(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	list := plan.Unready{Count: 300, Policies: []plan.UnreadyPolicy{{ID: "shop/x", Reason: "OverBudget"}}}
	l := c.leadBy(NewWriter(c.newClient(), testPrefix, WriterOptions{
		Installation: NewInstallation(testOwner, ""), Logger: logger(t, "leader"), Unready: func() plan.Unready { return list },
	}))
	l.MarkSynced(t.Context())
	r := c.watch("a")
	c.Eventually(r.Unready).Should(HaveValue(Equal(list)))
	l.stop()
	<-l.done
	c.Eventually(r.Unready).Should(BeNil(), "there is no leader that knows")
}
