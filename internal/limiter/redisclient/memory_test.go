// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"log/slog"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// servers are the server programs that the tests run on. The build tag valkey adds Valkey.
var servers = map[string]func(testing.TB, ...string) *testenv.Redis{"Redis": testenv.StartRedis}

func TestAskMemory(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			client := newClient(t, start(t).URL, commandTimeout)
			use := func() float64 {
				m, err := redisclient.AskMemory(t.Context(), client)
				g.Expect(err).NotTo(HaveOccurred())
				return m.Use
			}
			g.Expect(use()).To(BeZero(), "no maxmemory")
			g.Expect(client.ConfigSet(t.Context(), "maxmemory", "100mb").Err()).To(Succeed())
			g.Expect(use()).To(And(BeNumerically(">", 0), BeNumerically("<", 0.2)))
			g.Expect(client.SetRange(t.Context(), "large", 60<<20, "x").Err()).To(Succeed())
			g.Expect(use()).To(BeNumerically("~", 0.65, 0.1))
			g.Expect(client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err()).To(Succeed())
			g.Expect(redisclient.AskMemory(t.Context(), client)).To(Equal(redisclient.Memory{Evictions: []string{"allkeys-lru"}}))
			g.Expect(client.Close()).To(Succeed())
			_, err := redisclient.AskMemory(t.Context(), client)
			g.Expect(err).To(HaveOccurred())
		})
	}
}

// A Redis that removes keys is reported once in the log, and as a metric.
func TestEvictionIsReported(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			client := newClient(t, start(t).URL, commandTimeout)
			log, registry := &testenv.Log{}, prometheus.NewPedanticRegistry()
			use := redisclient.MemoryUse(client, slog.New(slog.NewTextHandler(log, nil)), registry)
			g.Expect(testutil.GatherAndCount(registry)).To(BeZero(), "unknown")
			for i, policy := range []string{"noeviction", "volatile-ttl", "volatile-ttl", "noeviction", "allkeys-lru"} {
				g.Expect(client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err()).To(Succeed())
				_, err := use(t.Context())
				g.Expect(err).NotTo(HaveOccurred())
				value := map[bool]string{true: "0", false: "1"}[policy == "noeviction"]
				g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP weir_redis_evicts_keys 1 if maxmemory-policy lets a Redis server remove keys when its memory is full, else 0.
# TYPE weir_redis_evicts_keys gauge
weir_redis_evicts_keys `+value+"\n"))).To(Succeed())
				g.Expect(strings.Count(log.String(), "level=ERROR")).To(Equal([]int{0, 1, 1, 1, 2}[i]))
			}
			g.Expect(log.String()).To(And(ContainSubstring("set maxmemory-policy noeviction"), ContainSubstring("policies=[volatile-ttl]")))
			g.Expect(client.Close()).To(Succeed())
			_, err := use(t.Context())
			g.Expect(err).To(HaveOccurred())
		})
	}
}

func TestAskMemoryOfACluster(t *testing.T) {
	g := NewWithT(t)
	client := newClient(t, testenv.StartRedisCluster(t).URL, commandTimeout)
	g.Expect(redisclient.AskMemory(t.Context(), client)).To(Equal(redisclient.Memory{Evictions: []string{"noeviction"}}))
}
