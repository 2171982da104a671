// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/testenv"
	"github.com/weir-dev/weir/internal/testenv/process"
)

// metrics returns a function that returns the lines of the metrics at the address.
func metrics(address string) func() ([]string, error) {
	return func() ([]string, error) {
		response, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return strings.Split(string(body), "\n"), err
	}
}

// logged returns how many lines of the log contain the text.
func (p *weirProcess) logged(text string) func() int {
	return func() int { return strings.Count(p.log.String(), text) }
}

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
	processes := []*weirProcess{both, decisions, controllers}
	for i, p := range processes {
		g.Eventually(p.logged("Redis is unavailable"), "10s").Should(Equal(1))
		g.Eventually(metrics(addresses[i]), "10s").Should(ContainElement("weir_redis_up 0"))
	}
	for _, p := range []*weirProcess{both, decisions} {
		g.Expect(status(p, "/healthz")).To(Equal(http.StatusOK))
		g.Expect(status(p, "/readyz")).To(Equal(http.StatusServiceUnavailable), "no plans yet")
	}
	g.Expect(status(controllers, "/readyz")).To(Equal(http.StatusOK), "it serves the webhook")
	c.redis.Start()
	for _, p := range []*weirProcess{both, decisions} {
		g.Eventually(func() int { return status(p, "/readyz") }, "20s").Should(Equal(http.StatusOK))
		g.Eventually(p.enforces("p"), "20s").Should(Equal(int64(7)))
	}
	for i, p := range processes {
		g.Eventually(metrics(addresses[i]), "10s").Should(ContainElement("weir_redis_up 1"))
		g.Expect(p.logged("Redis is unavailable")()).To(Equal(1), "however often it tries")
	}
	g.Eventually(c.condition("p", v1alpha1.ConditionReady), "20s").Should(Equal("True/Ready"))
}

func TestStandaloneStartsWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	server.Stop()
	address := testenv.FreeAddr(t)
	p := startStandalone(t, "--policies", "../../config/samples", "--redis-url", server.URL, "--metrics-address", address)
	g.Eventually(p.logged("Redis is unavailable"), "10s").Should(Equal(1))
	g.Eventually(metrics(address), "10s").Should(ContainElement("weir_redis_up 0"))
	g.Expect(status(p, "/readyz")).To(Equal(http.StatusOK), "it has its policies")
	check := func() (int, error) {
		status, _, err := p.check(`{"policies":["shop/login"],"key":"alice"}`)
		return status, err
	}
	g.Expect(check()).To(Equal(http.StatusServiceUnavailable), "failureMode Closed")
	server.Start()
	g.Eventually(check, "20s").Should(Equal(http.StatusOK))
	g.Eventually(metrics(address), "10s").Should(ContainElements("weir_redis_up 1",
		`weir_store_breaker_open{node="`+server.Addr+`"} 0`, `weir_store_queue_length{node="`+server.Addr+`"} 0`))
}

// Decisions, plans and both subscriptions follow the master that the sentinels name.
func TestManagerFollowsASentinelFailover(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
	p := c.manager("--redis-url", s.URL)
	c.apply("p", 7)
	g.Eventually(p.enforces("p"), "20s").Should(Equal(int64(7)))
	s.Nodes[0].Stop()
	s.AwaitMaster(s.Nodes[1])
	g.Eventually(func() int {
		status, _, _ := p.check(`{"policies":["shop/p"],"key":"alice"}`)
		if s.Client(s.Nodes[1]).Exists(t.Context(), "weir:1:c:{alice}:shop/p:hourly:fw:1h").Val() == 0 {
			return 0 // decided without Redis
		}
		return status
	}, "20s").Should(Equal(http.StatusOK))
	for _, channel := range []string{testenv.PlansKey(plan.Version), "weir:1:c:changed"} {
		g.Eventually(func() any { return s.Must(s.Nodes[1], "PUBSUB", "NUMSUB", channel) }, "20s").
			Should(Equal([]any{channel, int64(1)}))
	}
	c.edit("p", 9)
	g.Eventually(p.enforces("p"), "20s").Should(Equal(int64(9)))
}

func TestSentinelFlagsAreValidated(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no master": {[]string{"--redis-url", "redis-sentinel://h"}, "--redis-url: redis-sentinel://h: want the name of the master"},
		"server name without TLS": {
			[]string{"--redis-url", "redis-sentinel://h/m", "--redis-server-name", "n"}, "--redis-url: --redis-server-name needs rediss://",
		},
		"sentinel password without sentinels": {
			[]string{"--redis-url", "redis://h", "--redis-sentinel-password-file", "main.go"},
			"--redis-url: --redis-sentinel-password-file needs redis-sentinel://",
		},
		"server name without Redis": {[]string{"--redis-server-name", "n"}, "--redis-*-file, --redis-server-name: need --redis-url"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			args := append([]string{"standalone", "--policies", "../../config/samples"}, tc.args...)
			out, err := exec.Command(process.Weir(t), args...).CombinedOutput()
			g.Expect(err).To(HaveOccurred())
			g.Expect(string(out)).To(ContainSubstring(tc.want))
		})
	}
}

// A restart of Redis that loses everything is shorter than the 12 seconds after which a status
// reports an outage.
func TestRestartOfRedisChangesNoStatus(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.apply("p", 7)
	p := c.manager()
	g.Eventually(c.condition("p", v1alpha1.ConditionReady), "20s").Should(Equal("True/Ready"))
	before := c.version("p")()
	c.redis.Stop()
	g.Consistently(c.version("p"), "5s", "200ms").Should(Equal(before))
	c.redis.Start()
	rdb := c.redisClient()
	g.Eventually(func() bool {
		return rdb.HExists(t.Context(), testenv.PlansKey(plan.Version), "shop/p").Val()
	}, "10s").Should(BeTrue())
	g.Consistently(c.version("p"), "5s", "200ms").Should(Equal(before))
	events := &eventsv1.EventList{}
	g.Expect(c.client.List(t.Context(), events, client.InNamespace("default"))).To(Succeed())
	for _, e := range events.Items {
		g.Expect(e.Reason).NotTo(HavePrefix("Registry"))
	}
	g.Expect(p.threshold("p")).To(Equal(int64(7)))
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
	all := []*weirProcess{c.manager(), c.manager()}
	for _, p := range all {
		g.Eventually(p.enforces("p"), "20s").Should(Equal(int64(7)))
	}
	g.Eventually(c.condition("p", v1alpha1.ConditionReady), "20s").Should(Equal("True/Ready"))
	before := c.version("p")()
	first := c.leader(all)()
	g.Expect(first.cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	next := all[1-slices.Index(all, first)]
	g.Eventually(c.leader(all), "20s").Should(Equal(next))
	g.Eventually(next.logged("Registry in sync"), "10s").Should(Equal(1))
	g.Consistently(c.version("p"), "15s", "200ms").Should(Equal(before))
}
