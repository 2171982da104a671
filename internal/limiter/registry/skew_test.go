// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// later returns the encoding of a plan by a later release, with a member that this release does not know.
func later(c *cluster, p *plan.Plan) []byte {
	return []byte(strings.Replace(string(encoded(c, p).data), `"mode"`, `"later":true,"mode"`, 1))
}

func TestAnEarlierReplicaSkipsRecordsOfALaterRelease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5), makePlan("search", 5), makePlan("again", 5), makePlan("quiet", 5))
	a := c.watch("a")
	c.Eventually(a.plans).Should(Equal(4))
	l.publishRaw(t, "shop/login", later(c, makePlan("login", 6)))
	again, quiet := makePlan("again", 6), makePlan("quiet", 6)
	again.UID, quiet.Mode = "another", plan.ModeShadow
	l.publishRaw(t, "shop/again", later(c, again))
	l.publishRaw(t, "shop/quiet", later(c, quiet))
	c.Eventually(a.plans).Should(Equal(2), "the last plan of another object or mode does not stay")
	c.Expect(a.threshold("shop/login")).To(BeEquivalentTo(5), "the last plan stays")
	c.Eventually(func() bool { return l.Rollout("shop/login").ReplicasTooOld }).Should(BeTrue())
	c.Expect(l.Rollout("shop/search").ReplicasTooOld).To(BeFalse())
	c.Eventually(func() bool { return l.Rollout("shop/search").AllReplicasCurrent }).Should(BeTrue())

	a.stop()
	<-a.done
	restarted := c.watch("a")
	c.Eventually(restarted.plans).Should(Equal(1), "it has no last plan")
	c.Eventually(restarted.isFollowing).Should(BeTrue())
	c.Expect(l.Set(t.Context(), makePlan("login", 7), plan.SetOptions{})).To(Succeed())
	c.Eventually(restarted.threshold).WithArguments("shop/login").Should(BeEquivalentTo(7))
	c.Eventually(func() bool { return l.Rollout("shop/login").ReplicasTooOld }).Should(BeFalse())
}

// A leader of an earlier release neither replaces nor deletes what it cannot decode, as long as the object exists
// and no caller sets it.
func TestAnEarlierLeaderKeepsRecordsOfALaterRelease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.leadSynced(makePlan("login", 5))
	novel := later(c, makePlan("novel", 5))
	first.publishRaw(t, "shop/novel", novel)
	first.publishRaw(t, "shop/edited", later(c, makePlan("edited", 5)))
	first.stop()
	<-first.done
	stored := func() string { return c.client.HGet(t.Context(), c.scripts.plansKey(), "shop/novel").Val() }

	l := c.lead(testOwner)
	c.Expect(l.Set(t.Context(), makePlan("login", 6), plan.SetOptions{})).To(Succeed())
	c.Expect(l.Set(t.Context(), makePlan("edited", 6), plan.SetOptions{})).To(Succeed(), "whoever sets it replaces it")
	l.MarkSynced(t.Context())
	exists := func(context.Context, string) (bool, error) { return true, nil }
	c.Expect(l.Sweep(t.Context(), exists)).To(Succeed())
	c.Expect(stored()).To(Equal(string(novel)))
	c.Expect(l.Rollout("shop/novel").Record).To(BeNil(), "this release knows no plan of it")
	c.Expect(programmed(l, "shop/edited")).To(BeTrue())

	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(stored).Should(Equal(string(novel)), "it is part of a new epoch")
	c.Expect(l.Sweep(t.Context(), noneLive)).To(Succeed())
	c.Expect(c.stored()).To(ConsistOf("shop/login", "shop/edited"), "its object is gone")
}

func TestALaterLayoutIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	c.Eventually(r.plans).Should(Equal(1))
	before := c.header()
	c.Expect(before.layout).To(BeEquivalentTo(layout))
	c.Expect(c.client.HSet(t.Context(), c.scripts.metaKey(), "layout", layout+1).Err()).To(Succeed())
	c.Eventually(l.Err).Should(MatchError(errLaterLayout))
	c.Expect(errorKind(l.Err())).To(Equal(errLaterLayout.Error()), "the leader reached Redis")
	c.Eventually(r.isFollowing).Should(BeFalse())
	c.Expect(r.threshold("shop/login")).To(BeEquivalentTo(5))
	c.Expect(c.header().version).To(Equal(before.version))
	c.Expect(c.client.HSet(t.Context(), c.scripts.metaKey(), "layout", layout).Err()).To(Succeed())
	c.Eventually(l.Err).Should(Succeed())
	c.Eventually(r.isFollowing).Should(BeTrue())
}
