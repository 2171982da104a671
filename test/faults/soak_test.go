// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"flag"
	"fmt"
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
// if a limit was exceeded without a loss of data, or if a process grows. In the last two thirds the
// processes are warm and none is killed, so that growth shows.
func TestSoak(t *testing.T) {
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(*seed, 1))
	t.Logf("seed %d", *seed)
	s := startSingle(t, durable(t)...)
	weirs := []*weir{startProcess(t, standalone(t, "redis://"+s.proxy.Addr)...), startProcess(t, standalone(t, "redis://"+s.proxy.Addr)...)}
	l := startLoad(t, weirs...)
	await(t, "the first calls", func() bool { return len(l.all()) > 800 })
	happened, losses, starts := map[string]int{}, int64(0), len(weirs)
	disturbances := s.disturbances(t, weirs)
	usage := &usage{}
	start := time.Now()
	for time.Since(start) < *soak {
		warm := time.Since(start) > *soak/3
		if warm {
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
		}
		if warm {
			usage.sample(t, weirs, s.admin)
		}
	}
	ended := time.Now()
	await(t, "the end of all quotas", func() bool { return l.exhausted(ended) })
	l.awaitSliced()
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
	t.Logf("calls %d, without an answer %d, degraded %d, over-admitted %d, under-admitted %d, from slices %d, lost slices %d",
		r.calls, r.failed, r.degraded, r.over, r.under, r.sliced, r.unspent)
	judgeVerdicts(g, records, r.over, losses, starts)
	g.Expect(r.sliced).To(BeNumerically(">", enoughSliced), "checks that slices decided")
}

// sample is what the weir processes use at one time, while no fault is in force.
type sample struct {
	time                  time.Time
	heap                  float64 // live bytes of both processes
	routines, connections float64
}

// usage is the samples of warm processes.
type usage struct{ samples []sample }

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
	u.samples = append(u.samples, sample{time.Now(), heap, routines, connections})
}

// Bounds of the usage of both processes. The two halves of the samples are compared by their medians
// if each has enoughSamples, which takes a soak of two minutes; one high sample does not change a
// median.
const (
	enoughSamples   = 10
	mebibyte        = 1 << 20
	maxGrowth       = 1 // MiB a minute, of both processes
	flatRoutines    = 8
	flatConnections = 4
)

// growth is the difference between the medians of the first and the second half of the samples.
type growth struct {
	heap                  float64 // MiB a minute
	routines, connections float64
}

// growth returns false if there are too few samples.
func (u *usage) growth() (growth, bool) {
	half := len(u.samples) / 2
	if half < enoughSamples {
		return growth{}, false
	}
	first, second := u.samples[:half], u.samples[len(u.samples)-half:]
	rise := func(of func(*sample) float64) float64 { return median(second, of) - median(first, of) }
	minutes := second[half/2].time.Sub(first[half/2].time).Minutes()
	return growth{
		heap:        rise(func(s *sample) float64 { return s.heap }) / mebibyte / minutes,
		routines:    rise(func(s *sample) float64 { return s.routines }),
		connections: rise(func(s *sample) float64 { return s.connections }),
	}, true
}

// flat returns an error that names what grows.
func (r growth) flat() error {
	var errs []error
	for _, bound := range []struct {
		name       string
		rise, most float64
	}{
		{"MiB of heap a minute", r.heap, maxGrowth},
		{"goroutines", r.routines, flatRoutines},
		{"connections to Redis", r.connections, flatConnections},
	} {
		if bound.rise >= bound.most {
			errs = append(errs, fmt.Errorf("%.2f more %s, of less than %.0f", bound.rise, bound.name, bound.most))
		}
	}
	return errors.Join(errs...)
}

// median returns the median of a value of the samples.
func median(samples []sample, of func(*sample) float64) float64 {
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = of(&samples[i])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// judge prints the usage and checks that it does not grow.
func (u *usage) judge(t *testing.T, g *WithT) {
	t.Helper()
	if len(u.samples) == 0 {
		return
	}
	first, most := u.samples[0], u.samples[0]
	for _, s := range u.samples {
		most.routines, most.connections = max(most.routines, s.routines), max(most.connections, s.connections)
	}
	g.Expect(most.routines).To(BeNumerically("<", first.routines+100), "goroutines")
	g.Expect(most.connections).To(BeNumerically("<", first.connections+40), "connections to Redis")
	risen, enough := u.growth()
	last := u.samples[len(u.samples)-1]
	t.Logf("for %.1f min: live heap %.1f to %.1f MiB, goroutines %.0f to %.0f, at most %.0f, connections %.0f to %.0f, at most %.0f",
		last.time.Sub(first.time).Minutes(), first.heap/mebibyte, last.heap/mebibyte,
		first.routines, last.routines, most.routines, first.connections, last.connections, most.connections)
	if !enough {
		t.Logf("too short to judge growth: %d samples, of at least %d", len(u.samples), 2*enoughSamples)
		return
	}
	t.Logf("growth between the medians: %+v", risen)
	g.Expect(risen.flat()).To(Succeed())
}
