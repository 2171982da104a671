// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

var plotFile = flag.String("plot", "", "file for the plot of BenchmarkReplicas, in SVG (default: none)")

const (
	plansOfFleet = 100
	// burstOfFleet is the number of edits that are set as fast as the leader takes them.
	burstOfFleet = 5_000
)

// redisUse is what the server has used since its start.
type redisUse struct {
	cpu   float64 // seconds
	bytes float64 // sent
}

// use reads the counters of the server.
func (c *cluster) use(server redis.UniversalClient) (u redisUse) {
	info := server.Info(c.tb.Context(), "cpu", "stats").Val()
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

// BenchmarkReplicas measures live replicas with 100 plans, each with connections of its own. It reports
//   - the CPU and the network of Redis for their heartbeats and for the rounds of the leader,
//   - the time from an edit until the last replica has loaded it, and until the leader knows,
//   - the time of 5,000 edits at once until the last replica has loaded all, and what they cost Redis,
//   - the time until the last replica has loaded a registry that was wiped, and that was lost with a Redis that restarts, and
//     what that costs Redis.
//
// All replicas share the CPUs of this process, so the times are upper bounds. Edits are as many as -benchtime, such as 200x.
func BenchmarkReplicas(b *testing.B) {
	var curve []point
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { curve = append(curve, benchmarkReplicas(b, n)) })
	}
	if *plotFile != "" {
		NewWithT(b).Expect(os.WriteFile(*plotFile, plotReplicas(curve), 0o600)).To(Succeed())
	}
}

// benchFleet is many replicas in this process.
type benchFleet struct {
	*cluster
	leader    *leader
	revisions []atomic.Int64 // by replica
}

func startFleet(b *testing.B, n int) *benchFleet {
	b.Helper()
	f := &benchFleet{cluster: newCluster(b), revisions: make([]atomic.Int64, n)}
	f.SetDefaultEventuallyTimeout(2 * time.Minute)
	f.leader = f.leadSynced(makePlans(plansOfFleet)...)
	for i := range n {
		client := redis.NewClient(&redis.Options{
			Addr: f.redis.Addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: 2, ReadTimeout: 10 * time.Second,
		})
		b.Cleanup(func() { _ = client.Close() })
		w := NewWatcher(client, testPrefix, WatcherOptions{
			Installation: NewInstallation(testOwner, ""), Replica: fmt.Sprintf("replica-%04d", i), Logger: slog.New(slog.DiscardHandler),
		})
		go func() { _ = w.Start(b.Context(), func(s *index.Snapshot) { f.revisions[i].Store(s.Revision()) }) }()
		<-time.After(5 * time.Millisecond) // they share the CPUs of one machine
	}
	f.awaitRevision(1)
	f.Eventually(func() int { return f.leader.enforcedCounts("shop/p7")[1] }).Should(Equal(n))
	return f
}

// awaitRevision waits until every replica has loaded the revision.
func (f *benchFleet) awaitRevision(revision int64) {
	f.tb.Helper()
	start := time.Now()
	for i := range f.revisions {
		for f.revisions[i].Load() < revision {
			if time.Since(start) > 2*time.Minute {
				f.tb.Fatalf("replica %d has revision %d, not %d", i, f.revisions[i].Load(), revision)
			}
			<-time.After(time.Millisecond)
		}
	}
}

// set sets the threshold of a plan and returns the revision that has it.
func (f *benchFleet) set(name string, threshold int64) (id string, revision int64) {
	f.tb.Helper()
	edited := makePlan(name, threshold)
	// As the controller: a call may time out while 1,000 replicas share two cores with Redis.
	f.Eventually(func() error { return f.leader.Set(f.tb.Context(), edited, plan.SetOptions{}) }).Should(Succeed())
	revision, _ = f.leader.programmed(edited.ID())
	return edited.ID(), revision
}

// point is what a number of replicas costs.
type point struct {
	replicas               int
	cpu, megabytes         float64 // of Redis: percent of a core, a second
	loadedP99, knownP99    float64 // ms
	burst, wiped, restored float64 // s
}

func benchmarkReplicas(b *testing.B, n int) point {
	b.Helper()
	f, p := startFleet(b, n), point{replicas: n}
	const idle = 20 * time.Second
	<-time.After(idle) // all have begun to find each other less often
	took, use := f.timed(f.client, func() { <-time.After(idle) })
	p.cpu, p.megabytes = 100*use.cpu/took, use.bytes/took/1e6
	b.Logf("idle: %.2f %% of a core of Redis, %.3f MB/s", p.cpu, p.megabytes)

	var toLoad, toKnow []time.Duration
	threshold := int64(5)
	for b.Loop() {
		threshold++
		start := time.Now()
		id, revision := f.set("p7", threshold)
		f.awaitRevision(revision)
		toLoad = append(toLoad, time.Since(start))
		for !f.leader.Rollout(id).AllReplicasCurrent {
			<-time.After(time.Millisecond)
		}
		toKnow = append(toKnow, time.Since(start))
	}
	slices.Sort(toLoad)
	slices.Sort(toKnow)
	p.loadedP99, p.knownP99 = milliseconds(toLoad[len(toLoad)*99/100]), milliseconds(toKnow[len(toKnow)*99/100])

	var burst, wiped, restored redisUse
	p.burst, burst = f.timed(f.client, func() { f.awaitRevision(f.edits(burstOfFleet)) })
	p.wiped, wiped = f.timed(f.client, func() {
		next := f.header().revision + 1
		f.Expect(f.client.FlushAll(b.Context()).Err()).To(Succeed())
		f.awaitRevision(next)
	})
	next := f.header().revision + 1
	f.redis.Stop()
	f.redis.Start()
	f.Eventually(func() error { return f.client.Ping(b.Context()).Err() }).Should(Succeed())
	p.restored, restored = f.timed(f.client, func() { f.awaitRevision(next) })

	b.ReportMetric(0, "ns/op")
	for unit, value := range map[string]float64{
		"redis-cpu-%": p.cpu, "redis-MB/s": p.megabytes,
		"loaded-p50-ms": milliseconds(toLoad[len(toLoad)/2]), "loaded-p99-ms": p.loadedP99, "known-p99-ms": p.knownP99,
		"burst-s": p.burst, "burst-redis-s": burst.cpu, "burst-MB": burst.bytes / 1e6,
		"wiped-s": p.wiped, "wiped-redis-s": wiped.cpu, "wiped-MB": wiped.bytes / 1e6,
		"restart-s": p.restored, "restart-redis-s": restored.cpu, "restart-MB": restored.bytes / 1e6,
	} {
		b.ReportMetric(value, unit)
	}
	return p
}

// edits sets plans n times by 16 workers, as the controller does, and returns the last revision.
func (f *benchFleet) edits(n int) (last int64) {
	f.tb.Helper()
	var next, newest atomic.Int64
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				_, revision := f.set(fmt.Sprintf("p%d", i%plansOfFleet), 1000+i)
				for was := newest.Load(); was < revision && !newest.CompareAndSwap(was, revision); was = newest.Load() {
				}
			}
		})
	}
	workers.Wait()
	return newest.Load()
}

// timed returns the seconds that do takes, and what the server uses meanwhile.
func (c *cluster) timed(server redis.UniversalClient, do func()) (seconds float64, use redisUse) {
	before, start := c.use(server), time.Now()
	do()
	seconds = time.Since(start).Seconds()
	after := c.use(server)
	return seconds, redisUse{cpu: after.cpu - before.cpu, bytes: after.bytes - before.bytes}
}

// BenchmarkFailover measures live replicas with 100 plans behind Sentinels, each with connections of its own. It reports
//   - the time from an edit until the last replica has loaded it,
//   - the time from a failover until the last replica has loaded an edit from the new master, and what that costs this master.
func BenchmarkFailover(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchmarkFailover(b, n) })
	}
}

func benchmarkFailover(b *testing.B, n int) {
	b.Helper()
	sentinel := testenv.StartRedisSentinel(b, testenv.SentinelOptions{})
	c := newClusterBy(b, func() (redis.UniversalClient, error) { return redisclient.New(sentinel.URL, 10*time.Second) })
	c.SetDefaultEventuallyTimeout(2 * time.Minute)
	l, replicas := c.leadSynced(makePlans(plansOfFleet)...), make([]*replica, n)
	for i := range replicas {
		replicas[i] = c.watchWith(WatcherOptions{
			Installation: NewInstallation(testOwner, ""), Replica: fmt.Sprintf("replica-%04d", i), Logger: slog.New(slog.DiscardHandler),
		})
		<-time.After(5 * time.Millisecond) // they share the CPUs of one machine
	}
	c.Eventually(func() int { return l.enforcedCounts("shop/p7")[1] }).Should(Equal(n))
	threshold := int64(5)
	edit := func() {
		threshold++
		c.Eventually(func() error { return l.Set(b.Context(), makePlan("p7", threshold), plan.SetOptions{}) }).Should(Succeed())
		for _, r := range replicas {
			for r.threshold("shop/p7") != threshold {
				<-time.After(time.Millisecond)
			}
		}
	}
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		edit()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)

	var promoted time.Duration
	seconds, use := c.timed(sentinel.Client(sentinel.Nodes[1]), func() {
		start := time.Now()
		sentinel.Promote()
		promoted = time.Since(start)
		edit()
	})
	b.ReportMetric(0, "ns/op")
	for unit, value := range map[string]float64{
		"loaded-p50-ms": milliseconds(took[len(took)/2]), "loaded-p99-ms": milliseconds(took[len(took)*99/100]),
		"promoted-s": promoted.Seconds(), "failover-s": seconds,
		"failover-redis-s": use.cpu, "failover-MB": use.bytes / 1e6,
	} {
		b.ReportMetric(value, unit)
	}
}

// BenchmarkHeartbeats measures the CPU time and the network of Redis for one heartbeat, by plain commands and by the script, one at
// a time and from 64 processes at once, and for finding all processes, beside live processes.
func BenchmarkHeartbeats(b *testing.B) {
	for _, n := range []int{1, 100, 1_000, 10_000} {
		f := startReporters(b, n)
		plain := func(i int) {
			_, _, err := f.beats[i%n].send(b.Context(), &f.reports[i%n])
			f.Expect(err).NotTo(HaveOccurred())
		}
		script := func(i int) (h header) {
			h, _, err := f.scripts.heartbeat(b.Context(), &f.reports[i%n])
			f.Expect(err).NotTo(HaveOccurred())
			return h
		}
		f.measure(b, "heartbeat", 1, plain)
		f.measure(b, "script", 1, func(i int) { script(i) })
		f.measure(b, "all", 1, func(i int) {
			_, err := f.scripts.alive(b.Context(), script(i).now)
			f.Expect(err).NotTo(HaveOccurred())
		})
		if n >= callersTogether {
			f.measure(b, "heartbeat", callersTogether, plain)
			f.measure(b, "script", callersTogether, func(i int) { script(i) })
		}
	}
}

// callersTogether is the number of processes that send heartbeats at once.
const callersTogether = 64

// reporters are processes that send heartbeats.
type reporters struct {
	*cluster
	beats   []heartbeats
	reports []heartbeat
}

func startReporters(b *testing.B, n int) *reporters {
	b.Helper()
	c := newCluster(b)
	c.client = redis.NewClient(&redis.Options{Addr: c.redis.Addr, MaxRetries: -1, DialerRetries: 1, PoolSize: callersTogether})
	b.Cleanup(func() { _ = c.client.Close() })
	c.scripts = newScripts(c.client, testPrefix, nil)
	c.leadSynced(makePlans(plansOfFleet)...)
	f := &reporters{cluster: c}
	for i := range n {
		f.beats = append(f.beats, heartbeats{scripts: c.scripts})
		f.reports = append(f.reports, heartbeat{
			Owner: testOwner, Kind: kindReplica, Name: fmt.Sprintf("weir-decision-7d4b9c6f5d-%05d", i),
			Accepts: []string{testOwner}, Epoch: c.header().epoch, Revision: 1,
		})
	}
	return f
}

// measure measures a call that each of the callers makes for processes of its own.
func (f *reporters) measure(b *testing.B, what string, callers int, do func(i int)) {
	b.Helper()
	b.Run(fmt.Sprintf("%s/processes=%d/callers=%d", what, len(f.beats), callers), func(b *testing.B) {
		for i := range f.beats {
			do(i)
		}
		before, calls := f.use(f.client), max(b.N/callers, 1)
		b.ResetTimer()
		var running sync.WaitGroup
		for caller := range callers {
			running.Go(func() {
				for i := range calls {
					do(i*callers + caller)
				}
			})
		}
		running.Wait()
		after, all := f.use(f.client), float64(calls*callers)
		b.ReportMetric(1e6*(after.cpu-before.cpu)/all, "redis-us/op")
		b.ReportMetric((after.bytes-before.bytes)/all, "redis-B/op")
	})
}

// BenchmarkRollouts measures what the leader pays to compute how far 20,000 plans have got in 1,000 replicas: to read
// their heartbeats, and the Rollout of every plan.
func BenchmarkRollouts(b *testing.B) {
	const plans, replicas = 20_000, 1_000
	w := &Writer{entries: map[string]*entry{}, changed: make(chan struct{}, 1), options: WriterOptions{Installation: NewInstallation(testOwner, "")}}
	w.observed.epoch = newEpoch(testOwner, 1, "a")
	var reports []string
	for i := range replicas {
		r := heartbeat{Owner: testOwner, Kind: kindReplica, Name: fmt.Sprintf("replica-%04d", i), Epoch: w.observed.epoch, Revision: 7}
		encoded, err := json.Marshal(&r)
		if err != nil {
			b.Fatal(err)
		}
		reports = append(reports, r.field(), string(encoded))
	}
	ids := make([]string, plans)
	for i, p := range makePlans(plans) {
		data, err := plan.Encode(p)
		if err != nil {
			b.Fatal(err)
		}
		ids[i] = p.ID()
		w.entries[ids[i]] = newEntry(p, data)
		w.entries[ids[i]].revision = 7
	}
	b.Run("heartbeats", func(b *testing.B) {
		for b.Loop() {
			var alive []heartbeat
			for i := 0; i < len(reports); i += 2 {
				alive = append(alive, *decodeHeartbeat(reports[i], reports[i+1]))
			}
			w.recordReplicas(alive)
		}
	})
	b.Run("rollouts", func(b *testing.B) {
		for b.Loop() {
			for _, id := range ids {
				if !w.Rollout(id).AllReplicasCurrent {
					b.Fatal(id)
				}
			}
		}
	})
}
