// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func noneLive(context.Context, string) (bool, error) { return false, nil }

// succeed is a leader that inherits these plans.
func (c *cluster) succeed(names ...string) *leader {
	c.tb.Helper()
	first := c.leadSynced()
	for _, name := range names {
		c.Expect(first.Set(c.tb.Context(), makePlan(name, 5), plan.SetOptions{})).To(Succeed())
	}
	first.stop()
	<-first.done
	l := c.lead(testOwner)
	c.Eventually(l.Err).Should(Succeed())
	return l
}

func (c *cluster) stored() []string {
	return c.client.HKeys(c.tb.Context(), c.scripts.keys[0]).Val()
}

func TestSweepDeletesPlansWithoutPolicy(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.leadSynced(makePlan("kept", 5), makePlan("live", 5), makePlan("orphan", 5), makePlan("gone", 5))
	r := c.watch("a")
	first.stop()
	<-first.done

	l := c.lead(testOwner)
	c.Expect(l.Set(t.Context(), makePlan("kept", 5), plan.SetOptions{})).To(Succeed())
	c.Expect(programmed(l, "shop/live")).To(BeTrue(), "the leader inherits the last good plan of a policy")
	l.MarkSynced(c.tb.Context())
	live := func(_ context.Context, id string) (bool, error) { return id == "shop/live", nil }
	swept := func() float64 { return testutil.ToFloat64(l.metrics.orphans) }
	c.Expect(l.Sweep(t.Context(), live)).To(Succeed())
	c.Expect(swept()).To(BeEquivalentTo(2))
	c.Expect(c.client.HKeys(t.Context(), c.scripts.keys[0]).Val()).To(ConsistOf("shop/kept", "shop/live"))
	c.Eventually(r.plans).Should(Equal(2))
	c.Expect(l.Sweep(t.Context(), live)).To(Succeed())
	c.Expect(swept()).To(BeEquivalentTo(2), "nothing is left to sweep")
}

// A slow look must not delay the policies that are published meanwhile.
func TestSweepLooksWithoutALock(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.succeed("orphan", "set")
	asked, answer := make(chan string, 2), make(chan struct{})
	swept := make(chan error, 1)
	go func() {
		swept <- l.Sweep(t.Context(), func(_ context.Context, id string) (bool, error) {
			asked <- id
			<-answer
			return false, nil
		})
	}()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c.Expect(l.Set(ctx, makePlan("set", 6), plan.SetOptions{})).To(Succeed(), "during the look")
	close(answer)
	c.Expect(<-swept).To(Succeed())
	c.Expect(c.stored()).To(ConsistOf("shop/set"), "a plan that was set during the look stays")
}

func TestSweepDeletesNothingWhenTheLookFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.succeed("a", "b")
	failed := errors.New("no answer")
	err := l.Sweep(t.Context(), func(_ context.Context, id string) (bool, error) {
		if id == "shop/b" {
			return false, failed
		}
		return false, nil
	})
	c.Expect(err).To(MatchError(failed))
	c.Expect(c.stored()).To(ConsistOf("shop/a", "shop/b"))
	c.Expect(testutil.ToFloat64(l.metrics.orphans)).To(BeZero())
}
