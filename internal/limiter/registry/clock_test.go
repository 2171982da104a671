// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// skewedClock is the clock of a machine that is off.
func skewedClock(by time.Duration) *redisclient.Clock {
	return redisclient.NewClock(func() time.Time { return time.Now().Add(by) })
}

// watchBy starts a replica that learns the time of Redis.
func (c *cluster) watchBy(name string, clock *redisclient.Clock) *replica {
	c.tb.Helper()
	return c.watchWith(WatcherOptions{
		Installation: NewInstallation(testOwner, ""), Replica: name, Clock: clock, Logger: logger(c.tb, name),
	})
}

// Replicas whose clocks are 30 s off end an exception within one second of each other, also while the leader and Redis are
// away.
func TestReplicasKnowTheTimeOfRedis(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	clocks := []*redisclient.Clock{skewedClock(-30 * time.Second), skewedClock(30 * time.Second)}
	var replicas []*replica
	for i, clock := range clocks {
		replicas = append(replicas, c.watchBy(string(rune('a'+i)), clock))
	}
	for _, r := range replicas {
		c.Eventually(r.plans).Should(Equal(1))
	}
	until := c.client.Time(t.Context()).Val().Add(3 * time.Second)
	exception := &plan.Exception{
		Namespace: "shop", Name: "x", Policy: "login", Key: []string{"acme"}, UntilMillis: until.UnixMilli(), Action: plan.ActionAllow,
	}
	c.Expect(l.Set(t.Context(), exception, plan.SetOptions{})).To(Succeed())
	for _, r := range replicas {
		c.Eventually(func() int { return len(r.snapshot().Exceptions()) }).Should(Equal(1))
	}
	l.stop()
	<-l.done
	c.redis.Pause()
	for _, clock := range clocks {
		c.Eventually(clock.Now).WithTimeout(30 * time.Second).Should(BeTemporally(">=", exception.Until()))
		c.Eventually(func() time.Duration { return time.Until(clock.Now()).Abs() }).
			Should(BeNumerically("<", time.Second), "this machine has the clock of Redis") // busy: it awaits a read without a pause
	}
}

// A Redis with another time, as after a failover, sets the clock with the next heartbeat.
func TestTheTimeOfAnotherRedis(t *testing.T) {
	t.Parallel()
	server, clock := testenv.StartRedisWithClock(t)
	c := newClusterOn(t, server)
	c.leadSynced(makePlan("login", 5))
	known := skewedClock(0)
	r := c.watchBy("a", known)
	c.Eventually(r.plans).Should(Equal(1))
	c.Eventually(known.Now).Should(BeTemporally("~", clock.Now(), 30*time.Second))
	later := clock.Advance(time.Hour)
	c.Eventually(known.Now).Should(BeTemporally("~", later, 30*time.Second))
}
