// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// Weir starts while Redis is away. It logs this once and at once, and is ready from the first
// load of the registry.
func TestManagersStartWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.apply("p", 7)
	c.redis.Stop()
	addresses := []string{testenv.FreeAddr(t), testenv.FreeAddr(t), testenv.FreeAddr(t)}
	both := c.manager("--metrics-address", addresses[0])
	decisions := c.manager("--controllers=false", "--metrics-address", addresses[1])
	controllers := c.manager("--decisions=false", "--metrics-address", addresses[2])
	processes := []*process.Running{both, decisions, controllers}
	for i, p := range processes {
		g.Eventually(p.Logged("Redis is unavailable")).Should(Equal(1))
		g.Eventually(process.MetricLines(addresses[i])).Should(ContainElement("weir_redis_up 0"))
	}
	for _, p := range []*process.Running{both, decisions} {
		g.Expect(p.Status("/healthz")).To(Equal(http.StatusOK))
		g.Expect(p.Status("/readyz")).To(Equal(http.StatusServiceUnavailable), "no plans yet")
	}
	g.Expect(controllers.Status("/readyz")).To(Equal(http.StatusOK), "it serves the webhook")
	c.redis.Start()
	for _, p := range []*process.Running{both, decisions} {
		g.Eventually(func() int { return p.Status("/readyz") }).Should(Equal(http.StatusOK))
		g.Eventually(p.Enforces("p")).Should(Equal(int64(7)))
	}
	for i, p := range processes {
		g.Eventually(process.MetricLines(addresses[i])).Should(ContainElement("weir_redis_up 1"))
		g.Expect(p.Logged("Redis is unavailable")()).To(Equal(1), "however often it tries")
	}
	g.Eventually(c.condition("p", v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
}

// Decisions, plans and both subscriptions follow the master that the sentinels name.
func TestManagerFollowsASentinelFailover(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
	p := c.manager("--redis-url", s.URL)
	c.apply("p", 7)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(7)))
	s.Nodes[0].Stop()
	s.AwaitMaster(s.Nodes[1])
	g.Eventually(func() int {
		status, _, _ := p.Check(`{"policies":["shop/p"],"key":"alice"}`)
		if s.Client(s.Nodes[1]).Exists(t.Context(), "weir:1:c:{alice}:shop/p:hourly:fw:1h").Val() == 0 {
			return 0 // decided without Redis
		}
		return status
	}).Should(Equal(http.StatusOK))
	for _, channel := range []string{testenv.PlansKey, "weir:1:c:changed"} {
		g.Eventually(func() any { return s.Must(s.Nodes[1], "PUBSUB", "NUMSUB", channel) }).
			Should(Equal([]any{channel, int64(1)}))
	}
	c.edit("p", 9)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(9)))
}

// A restart of Redis that loses everything is shorter than the 12 seconds after which a status
// reports an outage.
func TestRestartOfRedisChangesNoStatus(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.apply("p", 7)
	p := c.manager()
	g.Eventually(c.condition("p", v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
	rdb := c.redisClient()
	c.expectNoWrite(p, func(poll func(time.Duration)) {
		c.redis.Stop()
		poll(5 * time.Second)
		c.redis.Start()
		g.Eventually(func() bool {
			poll(0)
			return rdb.HExists(t.Context(), testenv.PlansKey, "shop/p").Val()
		}).Should(BeTrue())
		poll(5 * time.Second)
	})
	g.Expect(p.Enforces("p")()).To(Equal(int64(7)))
}

// expectNoWrite expects that the steps change neither the status of the policy p nor report an outage in an event. The steps
// poll the process, for a time. If a poll takes more than a second, the machine is so busy that the process may rightly
// consider Redis or a replica away; what was written then shows nothing, and the steps are repeated.
func (c *cluster) expectNoWrite(p *process.Running, steps func(poll func(time.Duration))) {
	c.tb.Helper()
	g := NewWithT(c.tb)
	for attempt := range 10 {
		g.Eventually(c.condition("p", v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
		before, events := c.version("p")(), c.outageEvents()
		var slowest time.Duration
		last := time.Now()
		poll := func(d time.Duration) {
			for start := last; ; <-time.After(100 * time.Millisecond) {
				p.Enforces("p")()
				c.version("p")()
				slowest, last = max(slowest, time.Since(last)), time.Now()
				if last.Sub(start) >= d {
					return
				}
			}
		}
		steps(poll)
		after := c.version("p")()
		if after == before && c.outageEvents() == events {
			return
		}
		c.tb.Logf("attempt %d: version %s became %s; the slowest poll took %v", attempt, before, after, slowest)
		g.Expect(slowest).To(BeNumerically(">", time.Second), "the status was written")
	}
	c.tb.Error("the machine is too busy in each attempt")
}

// outageEvents returns how many events report an outage of the registry.
func (c *cluster) outageEvents() (n int) {
	c.tb.Helper()
	events := &eventsv1.EventList{}
	NewWithT(c.tb).Expect(c.client.List(c.tb.Context(), events, client.InNamespace("default"))).To(Succeed())
	for _, e := range events.Items {
		if strings.HasPrefix(e.Reason, "Registry") {
			n++
		}
	}
	return n
}

// version returns a function that returns the resource version of the policy.
func (c *cluster) version(name string) func() string {
	return func() string {
		policy := &v1alpha1.RateLimitPolicy{}
		if err := c.client.Get(c.tb.Context(), client.ObjectKey{Namespace: "shop", Name: name}, policy); err != nil {
			return err.Error()
		}
		return policy.ResourceVersion
	}
}

// The next leader finds every plan in the registry and on every replica, and so changes no status,
// also after the 12 seconds in which it could be behind.
func TestNextLeaderChangesNoStatus(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.apply("p", 7)
	first, next := c.manager(), c.manager()
	for _, p := range []*process.Running{first, next} {
		g.Eventually(p.Enforces("p")).Should(Equal(int64(7)))
	}
	if c.leader([]*process.Running{first, next})() == next {
		first, next = next, first
	}
	c.expectNoWrite(next, func(poll func(time.Duration)) {
		if first == nil { // in a further attempt
			first, next = next, c.manager()
			g.Eventually(next.Enforces("p")).Should(Equal(int64(7)))
		}
		first.Signal(t, syscall.SIGTERM)
		g.Eventually(func() bool { poll(0); return c.leader([]*process.Running{next})() == next }).Should(BeTrue())
		g.Eventually(func() int { poll(0); return next.Logged("Registry in sync")() }).Should(Equal(1))
		poll(15 * time.Second)
		first = nil
	})
}
