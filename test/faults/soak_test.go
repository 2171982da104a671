// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
)

var (
	soak = flag.Duration("soak", 15*time.Second, "length of the soak")
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the faults of the soak")
)

// disturbance is a fault that may come at any time.
type disturbance struct {
	name       string
	begin, end func()
	loses      bool // counters
	kills      bool // a weir process
}

// disturbances are the faults of the soak, of one Redis with two weir processes.
func (s *single) disturbances(t *testing.T, weirs []*weir) []disturbance {
	t.Helper()
	nothing := func() {}
	restart := func(w *weir, signal syscall.Signal) func() {
		return func() { (&system{processes: []*weir{w}}).restart(signal) }
	}
	return []disturbance{
		{name: "restart of Redis", begin: s.redis.Stop, end: s.redis.Start},
		{name: "frozen Redis", begin: s.redis.Pause, end: s.redis.Resume},
		{name: "black hole", begin: s.proxy.BlackHole, end: s.proxy.Heal},
		{name: "delay", begin: func() { s.proxy.Delay(100 * time.Millisecond) }, end: s.proxy.Heal},
		{name: "resets", begin: s.proxy.ResetReplies, end: s.proxy.Heal},
		{name: "SCRIPT FLUSH", begin: func() { s.must(t, "SCRIPT", "FLUSH") }, end: nothing},
		{name: "CLIENT KILL", begin: func() { s.must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }, end: nothing},
		{name: "FLUSHALL", begin: func() { s.must(t, "FLUSHALL") }, end: nothing, loses: true},
		{name: "maxmemory", begin: func() { s.must(t, "CONFIG", "SET", "maxmemory", "1") }, end: func() { s.must(t, "CONFIG", "SET", "maxmemory", "0") }},
		{name: "first weir killed", begin: restart(weirs[0], syscall.SIGKILL), end: nothing, kills: true},
		{name: "second weir killed", begin: restart(weirs[1], syscall.SIGKILL), end: nothing, kills: true},
		{name: "first weir terminated", begin: restart(weirs[0], syscall.SIGTERM), end: nothing, kills: true},
	}
}

// TestSoak disturbs two processes at random times in random ways, prints the accounting, and fails
// if a limit was exceeded without a loss of data, or if a process grows. In the last two thirds no
// process is killed, so that growth shows.
func TestSoak(t *testing.T) {
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(*seed, 1))
	t.Logf("seed %d", *seed)
	s := startSingle(t, durable...)
	weirs := []*weir{startProcess(t, standalone(t, "redis://"+s.proxy.Addr)...), startProcess(t, standalone(t, "redis://"+s.proxy.Addr)...)}
	l := startLoad(t, weirs...)
	await(t, "the first calls", func() bool { return len(l.all()) > 800 })
	happened, losses, starts := map[string]int{}, int64(0), len(weirs)
	disturbances := s.disturbances(t, weirs)
	usage := &usage{}
	start := time.Now()
	for time.Since(start) < *soak {
		if time.Since(start) > *soak/3 {
			disturbances = slices.DeleteFunc(disturbances, func(d disturbance) bool { return d.kills })
		}
		d := disturbances[random.IntN(len(disturbances))]
		happened[d.name]++
		if d.loses {
			losses++
		}
		d.begin()
		pass(t, time.Second+time.Duration(random.IntN(1000))*time.Millisecond)
		d.end()
		pass(t, time.Second+time.Duration(random.IntN(1000))*time.Millisecond)
		if d.kills {
			starts++
			usage.restart()
		}
		usage.sample(t, weirs, s.admin)
	}
	ended := time.Now()
	await(t, "the end of all quotas", func() bool { return l.exhausted(ended) })
	l.stop()
	judgeSoak(t, g, l.all(), happened, losses, starts)
	usage.judge(t, g)
}

// pass waits under load.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	start := time.Now()
	await(t, "the time to pass", func() bool { return time.Since(start) >= d })
}

// judgeSoak prints what the callers saw, and checks the failure modes and the quotas.
func judgeSoak(t *testing.T, g *WithT, records []record, happened map[string]int, losses int64, starts int) {
	t.Helper()
	r := account(records)
	t.Logf("faults: %v", happened)
	t.Logf("calls %d, without an answer %d, degraded %d, over-admitted %d, under-admitted %d", r.calls, r.failed, r.degraded, r.over, r.under)
	judgeVerdicts(g, records, r.over, losses, starts)
}

// usage is what the weir processes use over time, since the last restart of one.
type usage struct {
	start time.Time
	heap  []float64 // live bytes of both processes
	// routines and connections are the first and the largest number.
	routines, connections [2]float64
}

// restart forgets what was measured before.
func (u *usage) restart() { *u = usage{} }

// heapFactor is the size of the heap at which Go collects garbage, beside the live heap: GOGC=400.
const heapFactor = 5

func (u *usage) sample(t *testing.T, weirs []*weir, admin *redis.Client) {
	t.Helper()
	var heap, routines float64
	for _, w := range weirs {
		heap += w.metric("go_memstats_next_gc_bytes") / heapFactor
		routines += w.metric("go_goroutines")
	}
	clients, err := admin.ClientList(t.Context()).Result()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	connections := float64(strings.Count(clients, "\n"))
	if u.heap == nil {
		u.start = time.Now()
		u.routines[0], u.connections[0] = routines, connections
	}
	u.heap = append(u.heap, heap)
	u.routines[1], u.connections[1] = max(u.routines[1], routines), max(u.connections[1], connections)
}

// judge prints the usage and checks that it does not grow. The heap is compared over the last half,
// if that is more than a minute: the pools are warm then.
func (u *usage) judge(t *testing.T, g *WithT) {
	t.Helper()
	if u.heap == nil {
		return
	}
	const mebibyte = 1 << 20
	minutes := time.Since(u.start).Minutes() / 2
	last, middle := u.heap[len(u.heap)-1], u.heap[len(u.heap)/2]
	growth := (last - middle) / mebibyte / minutes
	t.Logf("for %.1f min since a restart: live heap %.1f MiB, growth %.2f MiB/min, goroutines %.0f to %.0f, connections %.0f to %.0f",
		2*minutes, last/mebibyte, growth, u.routines[0], u.routines[1], u.connections[0], u.connections[1])
	g.Expect(u.routines[1]).To(BeNumerically("<", u.routines[0]+200), "goroutines")
	g.Expect(u.connections[1]).To(BeNumerically("<", u.connections[0]+100), "connections to Redis")
	if minutes > 1 {
		g.Expect(growth).To(BeNumerically("<", 2), "MiB a minute, one for each process")
	}
}
