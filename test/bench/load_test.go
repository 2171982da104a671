// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/testenv"
)

// call sends the n-th request of a caller.
type call func(ctx context.Context, n int) error

// sample is one measurement of a load.
type sample struct {
	took      time.Duration
	latencies []time.Duration // sorted
	server    time.Duration   // CPU time of the target
	redis     time.Duration   // CPU time of its Redis
}

// newSample returns the sample of the callers' latencies.
func newSample(took time.Duration, latencies ...[]time.Duration) *sample {
	s := &sample{took: took, latencies: slices.Concat(latencies...)}
	slices.Sort(s.latencies)
	return s
}

// perSecond is the throughput.
func (s *sample) perSecond() float64 { return float64(len(s.latencies)) / s.took.Seconds() }

// percentile returns the latency that a share of the calls did not exceed.
func (s *sample) percentile(share float64) time.Duration {
	return s.latencies[min(len(s.latencies)-1, int(share*float64(len(s.latencies))))]
}

// perCall divides CPU time by the number of calls.
func (s *sample) perCall(cpu time.Duration) time.Duration {
	return cpu / time.Duration(len(s.latencies))
}

// measure runs the load for the duration, after its warm-up.
func measure(tb testing.TB, l *load, duration time.Duration) *sample {
	tb.Helper()
	run(tb, l, max(l.warmUp, duration/10))
	server, redis := testenv.CPUTime(tb, l.target.pid), testenv.CPUTime(tb, l.target.redis...)
	start := time.Now()
	latencies := run(tb, l, duration)
	s := newSample(time.Since(start), latencies...)
	s.server, s.redis = testenv.CPUTime(tb, l.target.pid)-server, testenv.CPUTime(tb, l.target.redis...)-redis
	if len(s.latencies) == 0 {
		tb.Fatalf("%s answered no call", l.name)
	}
	return s
}

// run calls until the duration is over and returns the latencies of each caller. A failed
// call fails the benchmark.
func run(tb testing.TB, l *load, duration time.Duration) [][]time.Duration {
	tb.Helper()
	var (
		stop   atomic.Bool
		all    sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	latencies := make([][]time.Duration, len(l.calls))
	for i, call := range l.calls {
		all.Go(func() {
			p := newPace(l)
			last := time.Now()
			for n := 0; !stop.Load(); n++ {
				start := p.next(last)
				err := call(tb.Context(), n)
				last = time.Now()
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				latencies[i] = append(latencies[i], last.Sub(start))
			}
		})
	}
	<-time.After(duration)
	stop.Store(true)
	all.Wait()
	if failed != nil {
		tb.Fatal(failed)
	}
	return latencies
}

// pace is the schedule of one caller.
type pace struct {
	interval time.Duration // mean time between calls; 0 is a closed loop
	due      time.Time
}

func newPace(l *load) *pace {
	p := &pace{due: time.Now()}
	if l.perSecond > 0 {
		p.interval = time.Duration(float64(len(l.calls)) / l.perSecond * float64(time.Second))
	}
	return p
}

// next waits until the next call is due, and returns the time from which its latency counts:
// the time when it was due, if the previous call, which ended last, made it late. A timer
// that fires late does not count.
func (p *pace) next(last time.Time) time.Time {
	if p.interval == 0 {
		return last
	}
	// Random gaps, so that the callers are independent of each other.
	p.due = p.due.Add(time.Duration(rand.ExpFloat64() * float64(p.interval)))
	if wait := p.due.Sub(last); wait > 0 {
		<-time.After(wait)
		return time.Now()
	}
	return p.due
}
