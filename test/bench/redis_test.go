// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/test/testenv"
)

// compareCluster compares one Redis server with Redis Clusters of one to three masters.
func compareCluster(b *testing.B, s *section) {
	b.Helper()
	single, _ := weirTargets(b, policyFolder(b, 0))
	single.name = "one Redis server"
	targets := []*target{single}
	for masters := 1; masters <= 3; masters++ {
		weir, _ := clusterTarget(b, masters)
		targets = append(targets, weir)
	}
	s.add(manyAllowed().pairOverGRPC(b, 64, targets, *rounds))
	s.note("Callers, Weir and all masters share the cores of this machine, so masters add no throughput\n" +
		"here. The CPU time per call shows what a Cluster costs.")
}

// clusterTarget starts weir on an empty Redis Cluster.
func clusterTarget(tb testing.TB, masters int) (*target, *testenv.RedisCluster) {
	tb.Helper()
	cluster := testenv.StartRedisClusterOf(tb, masters)
	var pids []int
	for _, node := range cluster.Nodes {
		pids = append(pids, node.Pid())
	}
	weir, _ := startWeir(tb, policyFolder(tb, 0), cluster.URL, pids)
	weir.name = fmt.Sprintf("Cluster, masters: %d", masters)
	return weir, cluster
}

// hangTime is how long Redis hangs.
const hangTime = 5 * time.Second

// compareHungRedis halts Redis under load.
func compareHungRedis(b *testing.B, s *section) {
	b.Helper()
	redis := testenv.StartRedis(b)
	weir, _ := startWeir(b, policyFolder(b, 0), redis.URL, []int{redis.Pid()}, "--store-timeout", "50ms")
	hangs := make([]*hang, *rounds)
	for i := range hangs {
		hangs[i] = measureHang(b, weir, redis)
	}
	var rows [][]string
	for _, row := range []struct {
		what string
		of   func(*hang) time.Duration
	}{
		{"p50 in the first second", func(h *hang) time.Duration { return h.percentile(0.5, 0, time.Second) }},
		{"p99 in the first second", func(h *hang) time.Duration { return h.percentile(0.99, 0, time.Second) }},
		{"p50 after the first second", func(h *hang) time.Duration { return h.percentile(0.5, time.Second, h.thaw) }},
		{"p99 after the first second", func(h *hang) time.Duration { return h.percentile(0.99, time.Second, h.thaw) }},
		{"from the end until the first decision by Redis", func(h *hang) time.Duration { return h.recovery(0) }},
		{"from the end until 99% of decisions are by Redis", func(h *hang) time.Duration { return h.recovery(0.99) }},
	} {
		var millis []float64
		for _, h := range hangs {
			millis = append(millis, float64(row.of(h))/float64(time.Millisecond))
		}
		rows = append(rows, []string{row.what, spread(millis, "%.1f") + " ms"})
	}
	s.table("10,000 keys, allowed, callers: 64, `failureMode: Open`, `--store-timeout` 50 ms",
		[]string{"latency", "median (lowest to highest)"}, rows...)
}

// answered is one decision during a hang, in time since its start.
type answered struct {
	from, until time.Duration
	degraded    bool
}

// hang is what callers saw of one hang of Redis.
type hang struct {
	thaw      time.Duration // time since the start when Redis continued
	decisions []answered    // by the time of the answer
}

// measureHang halts Redis while 64 callers call, and observes them until as long after the
// end of the hang.
func measureHang(tb testing.TB, weir *target, redis *testenv.Redis) *hang {
	tb.Helper()
	const callers = 64
	w := manyAllowed()
	clients := []ratelimitv3.RateLimitServiceClient{newClient(tb, weir.address), newClient(tb, weir.address)}
	byCaller := make([][]answered, callers)
	calls := make([]call, callers)
	var start atomic.Int64 // of the hang, in nanoseconds since origin; 0 before it
	origin := time.Now()
	for i := range calls {
		calls[i] = func(ctx context.Context, n int) error {
			from := time.Since(origin)
			r, err := clients[i%len(clients)].ShouldRateLimit(ctx, w.grpc[w.at(i, n)])
			if begin := time.Duration(start.Load()); begin > 0 && from >= begin {
				byCaller[i] = append(byCaller[i], answered{from - begin, time.Since(origin) - begin, isDegraded(r)})
			}
			return err
		}
	}
	h := &hang{}
	var halting sync.WaitGroup
	halting.Go(func() {
		<-time.After(time.Second)
		redis.Pause()
		begin := time.Since(origin)
		start.Store(int64(begin))
		<-time.After(hangTime)
		h.thaw = time.Since(origin) - begin
		redis.Resume()
	})
	run(tb, &load{target: weir, calls: calls}, time.Second+2*hangTime)
	halting.Wait()
	h.decisions = slices.Concat(byCaller...)
	slices.SortFunc(h.decisions, func(a, b answered) int { return int(a.until - b.until) })
	return h
}

// isDegraded reports whether Redis did not make the decision.
func isDegraded(r *ratelimitv3.RateLimitResponse) bool {
	for _, header := range r.GetResponseHeadersToAdd() {
		if strings.EqualFold(header.GetKey(), answer.HeaderDegraded) {
			return true
		}
	}
	return false
}

// percentile returns the latency of the calls that began within an interval.
func (h *hang) percentile(share float64, from, until time.Duration) time.Duration {
	var latencies []time.Duration
	for _, d := range h.decisions {
		if from <= d.from && d.from < until {
			latencies = append(latencies, d.until-d.from)
		}
	}
	if len(latencies) == 0 {
		return 0
	}
	return newSample(until-from, latencies).percentile(share)
}

// recoveryWindow is the time over which recovery takes the share.
const recoveryWindow = 100 * time.Millisecond

// recovery returns the time from the end of the hang until an answer by Redis from which on
// at least the share of the answers within recoveryWindow are by Redis. Without recovery it is
// the whole time that was observed.
func (h *hang) recovery(share float64) time.Duration {
	first := slices.IndexFunc(h.decisions, func(d answered) bool { return d.until >= h.thaw })
	if first < 0 {
		return hangTime
	}
	after := h.decisions[first:]
	end, byRedis := 0, 0 // of the window that begins with after[i]
	for i, d := range after {
		for ; end < len(after) && after[end].until < d.until+recoveryWindow; end++ {
			if !after[end].degraded {
				byRedis++
			}
		}
		if d.degraded {
			continue
		}
		if float64(byRedis) >= share*float64(end-i) {
			return d.until - h.thaw
		}
		byRedis--
	}
	return hangTime
}

func TestRecovery(t *testing.T) {
	h := &hang{thaw: time.Second}
	// Degraded until 1.5 s, then half of the decisions until 2 s.
	for at := time.Duration(0); at < 3*time.Second; at += time.Millisecond {
		degraded := at < 1500*time.Millisecond || at < 2*time.Second && at%(2*time.Millisecond) == 0
		h.decisions = append(h.decisions, answered{from: at - 5*time.Millisecond, until: at, degraded: degraded})
	}
	for share, want := range map[float64]time.Duration{0: 501 * time.Millisecond, 0.99: 999 * time.Millisecond} {
		if got := h.recovery(share); got.Round(10*time.Millisecond) != want.Round(10*time.Millisecond) {
			t.Errorf("share %v: %v, want %v", share, got, want)
		}
	}
	if got := h.percentile(0.99, 0, time.Second); got != 5*time.Millisecond {
		t.Error(got)
	}
}
