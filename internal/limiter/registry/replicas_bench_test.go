// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// redisUse is what the server has used since its start.
type redisUse struct {
	cpu   float64 // seconds
	bytes float64 // sent
}

// use reads the counters of the server.
func (c *cluster) use() (u redisUse) {
	info := c.client.Info(c.tb.Context(), "cpu", "stats").Val()
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		number, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "used_cpu_user", "used_cpu_sys":
			u.cpu += number
		case "total_net_output_bytes":
			u.bytes += number
		}
	}
	return u
}

// BenchmarkReplicas measures what live replicas with 100 plans cost: the CPU and the network of Redis for their heartbeats
// and for the rounds of the leader, the time from an edit until the last replica has loaded it, and until the leader knows.
// All replicas share the CPUs of this process, so the times are upper bounds.
func BenchmarkReplicas(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchmarkReplicas(b, n) })
	}
}

func benchmarkReplicas(b *testing.B, n int) {
	b.Helper()
	c := newCluster(b)
	c.SetDefaultEventuallyTimeout(time.Minute)
	l := c.leadSynced(makePlans(100)...)
	var loaded atomic.Int64 // replicas with the newest threshold of plan p7
	var newest atomic.Int64
	newest.Store(5)
	clients := make([]redis.UniversalClient, 10)
	for i := range clients {
		clients[i] = c.newClient()
	}
	for i := range n {
		name := fmt.Sprintf("replica-%04d", i)
		w := NewWatcher(clients[i%len(clients)], testPrefix, WatcherOptions{
			Installation: NewInstallation(testOwner, ""), Replica: name, Logger: slog.New(slog.DiscardHandler),
		})
		had := int64(0)
		go func() {
			_ = w.Start(b.Context(), func(s *plan.Snapshot) {
				threshold := s.Lookup("shop/p7").Limits[0].Threshold
				if threshold == newest.Load() && had != threshold {
					loaded.Add(1)
				}
				had = threshold
			})
		}()
		<-time.After(5 * time.Millisecond) // they share the CPUs of one machine
	}
	c.Eventually(loaded.Load).Should(BeEquivalentTo(n))
	c.Eventually(func() int { return l.enforcedCounts("shop/p7")[1] }).Should(Equal(n))

	const idle = 20 * time.Second
	<-time.After(idle) // all have begun to find each other less often
	before, start := c.use(), time.Now()
	<-time.After(idle)
	after, took := c.use(), time.Since(start)

	var toLoad, toKnow []time.Duration
	for b.Loop() {
		loaded.Store(0)
		edited := makePlan("p7", newest.Add(1))
		start := time.Now()
		c.Expect(l.Set(b.Context(), edited, plan.SetOptions{})).To(Succeed())
		for loaded.Load() < int64(n) {
			<-time.After(time.Millisecond)
		}
		toLoad = append(toLoad, time.Since(start))
		for !l.Rollout(edited.ID()).AllReplicasCurrent {
			<-time.After(time.Millisecond)
		}
		toKnow = append(toKnow, time.Since(start))
	}
	slices.Sort(toLoad)
	slices.Sort(toKnow)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*(after.cpu-before.cpu)/took.Seconds(), "redis-cpu-%")
	b.ReportMetric((after.bytes-before.bytes)/took.Seconds()/1e6, "redis-MB/s")
	b.ReportMetric(milliseconds(toLoad[len(toLoad)*99/100]), "loaded-p99-ms")
	b.ReportMetric(milliseconds(toKnow[len(toKnow)*99/100]), "known-p99-ms")
}
