// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// A copy of a cluster has a Namespace of the same UID, so both have the same name.
func TestSecondLeaderOfAnInstallationWaits(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.leadSynced(makePlan("login", 5))
	before := c.header()

	second := c.lead(testOwner)
	_ = second.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})
	second.MarkSynced(c.tb.Context())
	c.Eventually(second.Err).Should(MatchError(errLeaderAlive))
	c.Expect(second.Rollout("").Reachable).To(BeTrue())
	c.Expect(second.Rollout("").OwnedElsewhere).To(BeFalse(), "a former leader may just be ending")
	c.Eventually(second.Err).Should(And(MatchError(ErrOwnedElsewhere), MatchError(ContainSubstring(before.holder))))
	c.Expect(c.header().version).To(Equal(before.version))
	c.Expect(c.header().term).To(Equal(before.term))
	c.Expect(first.Set(t.Context(), makePlan("search", 5), plan.SetOptions{})).To(Succeed())

	first.stop()
	<-first.done
	c.Eventually(second.Err).Should(Succeed())
	c.Expect(c.header().holder).NotTo(Equal(before.holder))
}

func TestTermIsNotTakenBesideALiveLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	take := func(name string, observed *header) header {
		taken, err := c.scripts.takeTerm(t.Context(), &heartbeat{Owner: "new", Kind: kindLeader, Name: name}, 0, observed, []string{"new", "old"})
		c.Expect(err).NotTo(HaveOccurred())
		return taken
	}
	_, _, err := c.scripts.heartbeat(t.Context(), &heartbeat{Owner: "old", Kind: kindLeader, Name: "first"})
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(take("second", &header{}).holder).To(BeEmpty(), "a leader under the former name is alive")
	c.Expect(c.scripts.leave(t.Context(), &heartbeat{Owner: "old", Kind: kindLeader, Name: "first"})).To(Succeed())
	taken := take("second", &header{})
	c.Expect(taken.holder).To(Equal("second"))
	c.Expect(taken.owner).To(Equal("new"))
	c.Expect(take("second", &taken).term).To(BeNumerically(">", taken.term), "a leader does not wait for itself")
	c.Expect(take("third", &header{}).holder).To(Equal("second"), "the term is not the observed one")
}

// Replicas of both names run the same plans while a rename rolls out, and both leaders count
// all of them.
func TestRenamedInstallationKeepsItsRegistry(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	renamed := func() *Installation { return NewInstallation("new", testOwner) }
	before := c.leadSynced(makePlan("login", 5))
	a := c.watch("a")
	b := c.watchAs("b", renamed())
	c.Eventually(before.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	epoch := c.header().epoch

	before.stop()
	<-before.done
	after := c.leadAs(renamed())
	_ = after.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})
	after.MarkSynced(c.tb.Context())
	c.Eventually(after.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
	c.Expect(c.header().epoch).To(Equal(epoch), "a live replica accepts the former name alone")
	c.Expect(c.header().owner).To(Equal("new"))

	a.stop()
	<-a.done
	c.Eventually(func() string { return c.header().epoch.owner() }).Should(Equal("new"))
	c.Eventually(after.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{1, 1}))
	c.Expect(b.isFollowing()).To(BeTrue())
	c.Expect(b.fewestPlans()).To(Equal(1))
	// A replica reports itself under the new name with its next heartbeat.
	c.Eventually(c.processes).Should(ConsistOf("new/replica/b", HavePrefix("new/leader/")))

	// A rollback to the former name: its replica needs the former owner.
	a = c.watch("a")
	c.Eventually(a.threshold).WithArguments("shop/login").Should(BeEquivalentTo(6))
	c.Eventually(after.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{2, 2}))
}

func TestLeaderOfTheFormerNameWaitsForTheNewOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	after := c.leadAs(NewInstallation("new", testOwner))
	after.MarkSynced(c.tb.Context())
	c.Eventually(after.Err).Should(Succeed())
	before := c.lead(testOwner)
	c.Eventually(before.Err).Should(MatchError(ErrOwnedElsewhere))
}

func TestReplicaThatDoesNotKnowItsInstallation(t *testing.T) {
	t.Parallel()
	t.Run("follows the only one", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		l := c.leadSynced(makePlan("login", 5))
		unknown := NewInstallation("", "")
		r := c.watchAs("a", unknown)
		c.Eventually(l.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{1, 1}))
		unknown.Resolve(testOwner)
		c.Consistently(r.Err).WithTimeout(2 * period).Should(Succeed())
		c.Expect(l.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(Succeed())
		c.Eventually(l.enforcedCounts).WithArguments("shop/login").Should(Equal([]int{1, 1}))
		c.Expect(c.processes()).To(ConsistOf(c.leaderField(), testOwner+"/replica/a"))
	})
	t.Run("waits while another one is alive", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.leadSynced(makePlan("login", 5))
		other := c.watchAs("other", NewInstallation("elsewhere", ""))
		c.Eventually(c.processes).Should(ContainElement("elsewhere/replica/other"))
		unknown := NewInstallation("", "")
		r := c.watchAs("a", unknown)
		c.Consistently(r.plans).WithTimeout(2 * period).Should(Equal(-1))
		c.Expect(other.plans()).To(Equal(-1))
		unknown.Resolve(testOwner)
		c.Eventually(r.plans).Should(Equal(1))
	})
	t.Run("reports plans of another one, and loads its own", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		theirs := c.leadSynced(makePlan("login", 5))
		unknown := NewInstallation("", "")
		r := c.watchAs("a", unknown)
		c.Eventually(r.plans).Should(Equal(1))
		unknown.Resolve("elsewhere")
		c.Expect(r.Err()).To(MatchError(And(ContainSubstring(testOwner), ContainSubstring("elsewhere"))))
		c.Eventually(r.isFollowing).Should(BeFalse())
		c.Expect(r.plans()).To(Equal(1))
		c.Eventually(theirs.names).Should(BeEmpty())

		theirs.stop()
		<-theirs.done
		ours := c.lead("elsewhere")
		ours.MarkSynced(c.tb.Context())
		c.Eventually(r.plans).Should(Equal(0))
		c.Expect(r.Err()).To(Succeed())
	})
}

func TestStandbyIsReported(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced()
	s := &Standby{Client: c.newClient(), Prefix: testPrefix, Installation: NewInstallation(testOwner, ""), Name: "b", Logger: logger(t, "b")}
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- s.Start(ctx) }()
	c.Eventually(c.processes).Should(ConsistOf(c.leaderField(), testOwner+"/standby/b"))
	c.Expect(l.names()).To(BeEmpty(), "it makes no decisions")
	stop()
	c.Eventually(done).Should(Receive(BeNil()))
	c.Expect(c.processes()).To(ConsistOf(c.leaderField()))
}
