// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

// ownReport is the heartbeat of a replica in these tests.
func ownReport() *heartbeat { return &heartbeat{Owner: testOwner, Kind: kindReplica, Name: "a"} }

// scriptCalls returns the number of calls of scripts that Redis has answered.
func (c *cluster) scriptCalls() int {
	c.tb.Helper()
	return testenv.Calls(c.tb, c.client, "evalsha")
}

// changes are what may change between two heartbeats.
var changes = map[string]func(c *cluster, ctx context.Context){
	"a plan":             func(c *cluster, ctx context.Context) { c.client.HSet(ctx, c.scripts.metaKey(), "revision", 7) },
	"the digest":         func(c *cluster, ctx context.Context) { c.client.HSet(ctx, c.scripts.metaKey(), "digest", "x") },
	"a plan is lost":     func(c *cluster, ctx context.Context) { c.client.HDel(ctx, c.scripts.plansKey(), "shop/login") },
	"all plans are lost": func(c *cluster, ctx context.Context) { c.client.Del(ctx, c.scripts.plansKey()) },
	"the epoch is lost":  func(c *cluster, ctx context.Context) { c.client.Del(ctx, c.scripts.metaKey()) },
	"the epoch":          func(c *cluster, ctx context.Context) { c.client.HSet(ctx, c.scripts.metaKey(), "epoch", "x/9-x") },
	"the term":           func(c *cluster, ctx context.Context) { c.client.HSet(ctx, c.scripts.termKey(), "term", 99) },
	"the holder":         func(c *cluster, ctx context.Context) { c.client.HSet(ctx, c.scripts.termKey(), "holder", "x") },
	"the owner":          func(c *cluster, ctx context.Context) { c.client.HSet(ctx, c.scripts.termKey(), "owner", "x") },
	"the layout":         func(c *cluster, ctx context.Context) { c.client.HSet(ctx, c.scripts.metaKey(), "layout", layout+1) },
	"the term is lost":   func(c *cluster, ctx context.Context) { c.client.Del(ctx, c.scripts.termKey()) },
	"Redis is wiped":     func(c *cluster, ctx context.Context) { c.client.FlushAll(ctx) },
	"no script":          func(c *cluster, ctx context.Context) { c.client.ScriptFlush(ctx) },
}

// A heartbeat returns what the script returns, whatever has changed since the one before. Without a change Redis runs no script.
func TestHeartbeatsReturnTheStateOfTheRegistry(t *testing.T) {
	t.Parallel()
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			l := c.leadSynced(makePlan("login", 5))
			l.stop()
			<-l.done
			beats := heartbeats{scripts: c.scripts}
			scriptsOf := func() int {
				before := c.scriptCalls()
				h, o, err := beats.send(t.Context(), ownReport())
				c.Expect(err).NotTo(HaveOccurred())
				calls := c.scriptCalls() - before
				want, wantOthers, err := c.scripts.heartbeat(t.Context(), nil)
				c.Expect(err).NotTo(HaveOccurred())
				c.Expect(want.now).To(BeNumerically(">=", h.now))
				want.now = h.now
				c.Expect(h).To(Equal(want))
				c.Expect(o).To(Equal(wantOthers))
				alive, err := c.aliveNow()
				c.Expect(err).NotTo(HaveOccurred())
				c.Expect(alive).To(ConsistOf(*ownReport()))
				return calls
			}
			c.Expect(scriptsOf()).To(Equal(1))
			c.Eventually(scriptsOf).Should(BeZero()) // a heartbeat that took a period is sent again by the script
			change(c, t.Context())
			if name != "no script" {
				c.Expect(scriptsOf()).To(Equal(1))
			}
			c.Eventually(scriptsOf).Should(BeZero())
		})
	}
}

// The leader's report is in a heartbeat as long as the leader is alive.
func TestHeartbeatsReturnTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.leadSynced(makePlan("login", 5))
	beats := heartbeats{scripts: c.scripts}
	leader := func() *heartbeat {
		_, o, err := beats.send(t.Context(), ownReport())
		c.Expect(err).NotTo(HaveOccurred())
		return o.leader
	}
	for range 3 {
		c.Expect(leader()).To(HaveField("Kind", kindLeader))
	}
	expired := fmt.Sprintf("%d {}", c.header().now-1)
	for _, value := range []string{expired, "99999999999999999 {}", "", "?"} {
		c.Eventually(func() *heartbeat { // the leader may send another one in between
			c.client.HSet(t.Context(), c.scripts.processesKey(), c.leaderField(), value)
			return leader()
		}).Should(BeNil())
	}
	c.Eventually(leader).ShouldNot(BeNil())
}

// While the leader publishes, no heartbeat mixes two states of the registry.
func TestHeartbeatsAreNotTorn(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range int64(300) {
			if i%2 == 0 {
				_ = l.Set(t.Context(), makePlan("other", 1+i), plan.SetOptions{})
			} else {
				_ = l.Delete(t.Context(), "shop/other")
			}
		}
	}()
	defer func() { <-ended }()
	beats := heartbeats{scripts: c.scripts}
	var last int64
	for {
		select {
		case <-ended:
			c.Expect(last).To(BeNumerically(">", 100))
			return
		default:
		}
		h, _, err := beats.send(t.Context(), ownReport())
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(h.complete).To(BeTrue(), "revision %d", h.revision)
		c.Expect(h.revision).To(BeNumerically(">=", last))
		last = h.revision
	}
}

// A process is alive for the lifetime of its report from now on, also right after the clock of Redis was set.
func TestHeartbeatsWhenTheClockOfRedisIsSet(t *testing.T) {
	t.Parallel()
	server, clock := testenv.StartRedisWithClock(t)
	c := newClusterOn(t, server)
	beats := heartbeats{scripts: c.scripts}
	for _, by := range []time.Duration{0, time.Hour, time.Second, -50 * time.Millisecond, -time.Hour, 0} {
		clock.Advance(by)
		_, o, err := beats.send(t.Context(), ownReport())
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(o.processes).To(Equal(1))
		var ends int64
		_, err = fmt.Sscanf(c.client.HGet(t.Context(), c.scripts.processesKey(), ownReport().field()).Val(), "%d ", &ends)
		c.Expect(err).NotTo(HaveOccurred())
		now := c.header().now
		c.Expect(ends).To(BeNumerically("<=", now+lifetime.Microseconds()), "after %s", by)
		c.Expect(ends).To(BeNumerically(">", now+(lifetime-period).Microseconds()-500_000), "after %s", by)
	}
	clock.SetMicros(0) // the clock runs from here on
	const falls = 20
	before := c.scriptCalls()
	for range falls {
		clock.Move(-clockMargin / 2)
		_, _, err := beats.send(t.Context(), ownReport())
		c.Expect(err).NotTo(HaveOccurred())
	}
	// The first one sees the jump to the time of today, and others may have taken a period.
	c.Expect(c.scriptCalls()-before).To(BeNumerically("<", falls/2), "two clocks never run at the same speed")
}

// A Redis that does not answer costs a heartbeat one timeout.
func TestHeartbeatsWhenRedisHangs(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	beats := heartbeats{scripts: c.scripts}
	for range 2 {
		_, _, err := beats.send(t.Context(), ownReport())
		c.Expect(err).NotTo(HaveOccurred())
	}
	c.redis.Pause()
	start := time.Now()
	_, _, err := beats.send(t.Context(), ownReport())
	c.Expect(err).To(HaveOccurred())
	c.Expect(time.Since(start)).To(BeNumerically("<", 30*time.Second))
	c.redis.Resume()
	before := c.scriptCalls()
	_, _, err = beats.send(t.Context(), ownReport())
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(c.scriptCalls() - before).To(Equal(1))
}

// addProcesses reports many processes as alive, as a large fleet does.
func (c *cluster) addProcesses(n int) {
	c.tb.Helper()
	values := map[string]any{}
	ends := c.header().now + lifetime.Microseconds()
	for i := range n {
		values[fmt.Sprintf("%s/replica/many-%d", testOwner, i)] = fmt.Sprintf(`%d {"epoch":"x/1-x"}`, ends)
	}
	c.Expect(c.client.HSet(c.tb.Context(), c.scripts.processesKey(), values).Err()).To(Succeed())
}

// Among many processes a replica surveys rarely by itself, and at once for a caller.
func TestReplicasAreSurveyedForACaller(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.leadSynced(makePlan("login", 5))
	c.addProcesses(500)
	a := c.watch("a")
	c.Eventually(a.plans).Should(Equal(1))
	c.Eventually(a.LiveReplicas).Should(BeNumerically(">", 400), "the first heartbeat has counted them")
	c.Eventually(a.answers.Load).Should(BeTrue())
	c.addProcesses(600)
	c.Expect(a.Replicas(t.Context())).To(ContainElement(HaveField("Name", "many-599")))
	last := len(a.Replicas(t.Context()))
	c.Eventually(func() bool { return a.found.Load().isOld() }).Should(BeTrue())
	c.redis.Pause()
	c.Eventually(a.answers.Load).Should(BeFalse())
	start := time.Now()
	c.Expect(a.Replicas(t.Context())).To(HaveLen(last), "of the last survey")
	c.Expect(time.Since(start)).To(BeNumerically("<", callTimeout), "it asks for none") // busy: asking would take as long
}
