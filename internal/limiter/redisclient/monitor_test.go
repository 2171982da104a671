// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// monitorLog is the log of a Monitor.
type monitorLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *monitorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *monitorLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

// startMonitor monitors the Redis of the URL, and returns its log and a function that returns
// the value of weir_redis_up.
func startMonitor(t *testing.T, url string) (log *monitorLog, up func() float64, registry *prometheus.Registry) {
	t.Helper()
	log, registry = &monitorLog{}, prometheus.NewRegistry()
	client := newClient(t, url, time.Second)
	monitor := redisclient.NewMonitor(redisclient.MonitorOptions{
		Counters: client, Registry: client, Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: registry,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- monitor.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-ended).To(Succeed())
	})
	return log, func() float64 {
		families, err := registry.Gather()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			if family.GetName() == "weir_redis_up" {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("no weir_redis_up")
		return 0
	}, registry
}

func TestMonitorLogsChangesOnly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	server.Stop()
	log, up, _ := startMonitor(t, server.URL)
	g.Eventually(log.lines).Should(ConsistOf(And(
		ContainSubstring("level=WARN"), ContainSubstring("Redis is unavailable"), ContainSubstring("connection refused"))))
	g.Expect(up()).To(BeZero())
	g.Consistently(log.lines, "2500ms").Should(HaveLen(1), "one line, however often it asks")
	server.Start()
	g.Eventually(up, "30s").Should(Equal(1.0))
	g.Expect(log.lines()).To(HaveLen(2))
	g.Expect(log.lines()[1]).To(And(ContainSubstring("Redis is available"), ContainSubstring("redis 7.")))
	server.Pause()
	g.Eventually(up, "30s").Should(BeZero())
	server.Resume()
	g.Eventually(up, "30s").Should(Equal(1.0))
	g.Expect(log.lines()).To(HaveLen(4))
}

func TestMonitorExportsConnections(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, up, registry := startMonitor(t, testenv.StartRedis(t).URL)
	g.Eventually(up, "30s").Should(Equal(1.0))
	g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP weir_redis_connections Open connections to Redis.
		# TYPE weir_redis_connections gauge
		weir_redis_connections{client="counters",state="idle"} 1
		weir_redis_connections{client="counters",state="subscribed"} 0
		weir_redis_connections{client="counters",state="used"} 0
		weir_redis_connections{client="registry",state="idle"} 1
		weir_redis_connections{client="registry",state="subscribed"} 0
		weir_redis_connections{client="registry",state="used"} 0
	`), "weir_redis_connections")).To(Succeed())
}

func TestMonitorOfAClusterNeedsEveryMaster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := testenv.StartRedisCluster(t)
	log, up, _ := startMonitor(t, cluster.URL)
	g.Eventually(up, "30s").Should(Equal(1.0))
	g.Expect(log.lines()).To(ConsistOf(ContainSubstring("redis 7.")))
	cluster.Nodes[1].Stop()
	g.Eventually(up, "30s").Should(BeZero())
}

func TestMonitorOfSentinels(t *testing.T) {
	t.Parallel()
	testMonitorOfSentinels(t, testenv.SentinelOptions{}, "redis 7.")
}

// testMonitorOfSentinels is for servers whose version the log reports like this.
func testMonitorOfSentinels(t *testing.T, options testenv.SentinelOptions, version string) {
	t.Helper()
	g := NewWithT(t)
	s := testenv.StartRedisSentinel(t, options)
	log, up, _ := startMonitor(t, s.URL)
	g.Eventually(up, "30s").Should(Equal(1.0))
	g.Expect(log.lines()).To(ConsistOf(ContainSubstring(version)))
	s.Nodes[0].Stop()
	g.Eventually(up, "30s").Should(BeZero())
	g.Eventually(up, failoverTime).Should(Equal(1.0))
}

// The clock asks Redis for the time only if nothing else has learned it for a second.
func TestMonitorAsksForTheTimeIfNothingElseDoes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	client, clock := newClient(t, testenv.StartRedis(t).URL, time.Second), redisclient.NewClock(nil)
	calls := func(command string) int { return testenv.Calls(t, client, command) }
	clock.Learn(time.Now(), clock.Local())
	monitor := redisclient.NewMonitor(redisclient.MonitorOptions{
		Counters: client, Clock: clock, Logger: slog.New(slog.DiscardHandler),
	})
	var running sync.WaitGroup
	running.Go(func() { _ = monitor.Start(t.Context()) })
	t.Cleanup(running.Wait)
	before := calls("hello")
	g.Eventually(func() int {
		clock.Learn(time.Now(), clock.Local())
		return calls("hello")
	}, "30s").Should(BeNumerically(">=", before+3))
	g.Expect(calls("time")).To(BeZero())
	g.Eventually(calls, "30s").WithArguments("time").Should(BeNumerically(">=", 2))
}
