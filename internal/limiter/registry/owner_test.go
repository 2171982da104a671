// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestWritesOfADeposedLeaderAreRejected(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	old := c.leadSynced(makePlan("login", 5))
	version := c.depose().version

	c.Expect(old.Set(t.Context(), makePlan("login", 7), plan.SetOptions{})).To(MatchError(ErrDeposed))
	c.Expect(old.Delete(t.Context(), "shop/login")).To(MatchError(ErrDeposed))
	c.Eventually(old.done).Should(BeClosed())
	c.Expect(old.err).To(MatchError(ErrDeposed))
	c.Expect(c.header().version).To(Equal(version))
}

// A leader that has not seen the new term yet relies on Redis to reject its writes.
func TestRedisRejectsWritesOfAnOldTerm(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	l.stop()
	<-l.done
	before := c.header()
	taken := c.depose()

	to := before.version
	to.revision++
	for name, w := range map[string]*write{
		"set":    {from: before.version, to: to, changes: map[string][]byte{"shop/login": []byte("{}")}, count: 1},
		"delete": {from: before.version, to: to, changes: map[string][]byte{"shop/login": nil}},
		"epoch":  {from: before.version, to: version{epoch: newEpoch(testOwner, 1, "x"), revision: 1}},
	} {
		c.Expect(c.scripts.publish(t.Context(), before.term, before.holder, w)).To(MatchError(errConflict), name)
		c.Expect(c.scripts.publish(t.Context(), before.term, taken.holder, w)).To(MatchError(errConflict), name+" of an earlier term of the same holder")
		c.Expect(c.scripts.publish(t.Context(), taken.term, "another", w)).To(MatchError(errConflict), name)
	}
	c.Expect(c.header().version).To(Equal(before.version))
}

func TestRedisRejectsWritesFromAnotherVersion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	l.stop()
	<-l.done
	h := c.header()
	to := version{epoch: h.epoch, revision: h.revision + 1, digest: "d"}
	for name, from := range map[string]version{
		"epoch":    {epoch: "weir/1-x", revision: h.revision, digest: h.digest},
		"revision": {epoch: h.epoch, revision: h.revision - 1, digest: h.digest},
		"digest":   {epoch: h.epoch, revision: h.revision, digest: "d"},
	} {
		w := &write{from: from, to: to, changes: map[string][]byte{"shop/login": nil}}
		c.Expect(c.scripts.publish(t.Context(), h.term, h.holder, w)).To(MatchError(errConflict), name)
	}
	c.Expect(c.header().version).To(Equal(h.version))
	w := &write{from: h.version, to: to, changes: map[string][]byte{"shop/login": nil}}
	c.Expect(c.scripts.publish(t.Context(), h.term, h.holder, w)).To(Succeed())
}

// A failover may lose the term but not the plans. The leader then takes a new term.
func TestLostTermIsTakenAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.lead(testOwner)
	l.MarkSynced(c.tb.Context())
	c.Eventually(l.Err).Should(Succeed())
	before := c.header()
	c.Expect(c.client.HSet(t.Context(), c.scripts.keys[4], "term", "1", "holder", "x").Err()).To(Succeed())
	c.Eventually(func() int64 { return c.header().term }).Should(BeNumerically(">", before.term))
	c.Expect(c.header().version).To(Equal(before.version))
	c.Expect(l.Set(t.Context(), makePlan("login", 5), plan.SetOptions{})).To(Succeed())
}

func TestTermsRiseAfterAWipe(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var last int64
	for range 3 {
		next := &heartbeat{Owner: testOwner, Kind: kindLeader, Name: "successor"}
		taken, err := c.scripts.takeTerm(t.Context(), next, 0, &header{}, nil)
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(taken.term).To(BeNumerically(">=", last))
		last = taken.term
		again, err := c.scripts.takeTerm(t.Context(), next, last+1000, &taken, nil)
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(again.term).To(Equal(last + 1001))
		c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	}
}

func TestLeaderDoesNotReplaceALiveOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	theirs := c.leadSynced(makePlan("login", 5))
	before := c.header()

	ours := c.lead("elsewhere/weir")
	err := ours.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})
	c.Expect(err).To(MatchError(ErrOwnedElsewhere))
	c.Expect(err).To(MatchError(ContainSubstring(testOwner)))
	ours.MarkSynced(c.tb.Context())
	c.Consistently(func() version { return c.header().version }).WithTimeout(2 * time.Second).Should(Equal(before.version))
	c.Expect(c.header().term).To(Equal(before.term), "the leader of the owner keeps its term")
	c.Expect(ours.Err()).To(MatchError(ErrOwnedElsewhere))
	rollout := ours.Rollout("shop/login")
	c.Expect(rollout.Reachable).To(BeTrue())
	c.Expect(rollout.OwnedElsewhere).To(BeTrue())
	c.Expect(theirs.Set(t.Context(), makePlan("login", 7), plan.SetOptions{})).To(Succeed())
}

func TestReplicasKeepTheirOwnerAlive(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	theirs := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	theirs.stop()
	<-theirs.done
	ours := c.lead("elsewhere/weir")
	ours.MarkSynced(c.tb.Context())
	c.Consistently(func() string { return c.header().epoch.owner() }).WithTimeout(lifetime + time.Second).
		Should(Equal(testOwner))

	r.stop()
	<-r.done
	c.Eventually(func() string { return c.header().epoch.owner() }).Should(Equal("elsewhere/weir"))
}

func TestLeaderReplacesADeadOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	theirs := c.leadSynced(makePlan("login", 5), makePlan("theirs", 5))
	theirs.stop()
	<-theirs.done
	ours := c.lead("elsewhere/weir")
	_ = ours.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})
	ours.MarkSynced(c.tb.Context())
	c.Eventually(ours.Err).Should(Succeed())
	c.Expect(c.header().epoch.owner()).To(Equal("elsewhere/weir"))
	c.Expect(c.client.HKeys(t.Context(), c.scripts.keys[0]).Val()).To(ConsistOf("shop/login"))
}

func TestEpochContainsOwnerAndStamp(t *testing.T) {
	g := NewWithT(t)
	e := newEpoch("weir-system/weir", 1_900_000_000_123_456, "RANDOM")
	g.Expect(e.owner()).To(Equal("weir-system/weir"))
	g.Expect(e.stamp()).To(BeEquivalentTo(1_900_000_000_123_456))
}

func TestMalformedEpochHasANegativeStamp(t *testing.T) {
	g := NewWithT(t)
	for _, malformed := range []epoch{"", "x", "a/b-c", "a/-"} {
		g.Expect(malformed.stamp()).To(BeNumerically("<", 0), string(malformed))
	}
	g.Expect(epoch("").owner()).To(BeEmpty())
}
