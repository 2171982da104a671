// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// connections is the number of gRPC connections that the callers share, about one for each
// worker thread of a proxy.
const connections = 2

// call sends the n-th request of a caller.
type call func(ctx context.Context, n int) error

// dial reports whether the address accepts connections.
func dial(address string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// workload is the set of requests that callers send in turn.
type workload struct {
	name   string
	grpc   []*ratelimitv3.RateLimitRequest
	bodies [][]byte // of POST /v1/check
	denied bool     // Weir denies every request, once each key is exhausted
}

// keysOf returns a workload over n keys. The entry selects the policy.
func keysOf(name, entry string, n int, denied bool) *workload {
	w := &workload{name: name, denied: denied}
	for i := range n {
		value := fmt.Sprintf("user-%d", i)
		w.grpc = append(w.grpc, &ratelimitv3.RateLimitRequest{
			Domain: "bench",
			Descriptors: []*commonv3.RateLimitDescriptor{{
				Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: entry, Value: value}},
			}},
		})
		w.bodies = append(w.bodies, fmt.Appendf(nil, `{"policies":["bench/%s"],"key":%q}`, entry, value))
	}
	return w
}

var errUnexpectedCode = errors.New("unexpected code")

// newClient returns a client with a connection of its own.
func newClient(tb testing.TB, address string) ratelimitv3.RateLimitServiceClient {
	tb.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return ratelimitv3.NewRateLimitServiceClient(c)
}

// overGRPC returns a call for each of the callers, which share the connections.
func (w *workload) overGRPC(tb testing.TB, t *target, callers int) []call {
	tb.Helper()
	want := ratelimitv3.RateLimitResponse_OK
	if w.denied && !t.allowsAll {
		want = ratelimitv3.RateLimitResponse_OVER_LIMIT
	}
	clients := make([]ratelimitv3.RateLimitServiceClient, min(connections, callers))
	for i := range clients {
		clients[i] = newClient(tb, t.address)
	}
	calls := make([]call, callers)
	for i := range calls {
		calls[i] = func(ctx context.Context, n int) error {
			r, err := clients[i%len(clients)].ShouldRateLimit(ctx, w.grpc[(i*997+n)%len(w.grpc)])
			if err == nil && r.GetOverallCode() != want {
				err = fmt.Errorf("%w: %v", errUnexpectedCode, r.GetOverallCode())
			}
			return err
		}
	}
	return calls
}

// overHTTP returns a call for each of the callers, each on a connection of its own.
func (w *workload) overHTTP(tb testing.TB, t *target, method, path string, callers int) []call {
	tb.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true}}
	tb.Cleanup(client.CloseIdleConnections)
	calls := make([]call, callers)
	for i := range calls {
		calls[i] = func(ctx context.Context, n int) error {
			at := (i*997 + n) % len(w.bodies)
			var body io.Reader
			if method == http.MethodPost {
				body = bytes.NewReader(w.bodies[at])
			}
			r, err := http.NewRequestWithContext(ctx, method, "http://"+t.address+path, body)
			if err != nil {
				return err
			}
			r.Header.Set("X-User", fmt.Sprintf("user-%d", at))
			response, err := client.Do(r)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				return err
			}
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("%w: %d", errUnexpectedCode, response.StatusCode)
			}
			return nil
		}
	}
	return calls
}

// sample is one measurement of a target.
type sample struct {
	took      time.Duration
	latencies []time.Duration // sorted
	server    time.Duration   // CPU time of the target
	redis     time.Duration   // CPU time of its Redis
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

// measure runs the calls in closed loops for the duration, after a tenth of it as warm-up.
func measure(tb testing.TB, t *target, calls []call, duration time.Duration) *sample {
	tb.Helper()
	run(tb, calls, duration/10)
	server, redis := cpuTime(tb, t.pid), cpuTime(tb, t.redis)
	start := time.Now()
	latencies := run(tb, calls, duration)
	s := &sample{took: time.Since(start), latencies: latencies}
	s.server, s.redis = cpuTime(tb, t.pid)-server, cpuTime(tb, t.redis)-redis
	if len(latencies) == 0 {
		tb.Fatalf("%s answered no call", t.name)
	}
	slices.Sort(s.latencies)
	return s
}

// run calls until the duration is over and returns the latency of every call. A failed call
// fails the benchmark.
func run(tb testing.TB, calls []call, duration time.Duration) []time.Duration {
	tb.Helper()
	var (
		stop   atomic.Bool
		all    sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	latencies := make([][]time.Duration, len(calls))
	for i, call := range calls {
		all.Go(func() {
			last := time.Now()
			for n := 0; !stop.Load(); n++ {
				err := call(tb.Context(), n)
				now := time.Now()
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				latencies[i] = append(latencies[i], now.Sub(last))
				last = now
			}
		})
	}
	<-time.After(duration)
	stop.Store(true)
	all.Wait()
	if failed != nil {
		tb.Fatal(failed)
	}
	return slices.Concat(latencies...)
}
