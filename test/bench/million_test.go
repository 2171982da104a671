// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/weir-dev/weir/test/testenv"
)

// cost is what one decision costs.
type cost struct {
	weir, redis     float64 // CPU time in microseconds
	caller, toRedis float64 // bytes in both directions, between Weir and each of them
}

// compareMillion measures the cost of a decision and multiplies it.
func compareMillion(b *testing.B, s *section) {
	b.Helper()
	redis := testenv.StartRedis(b)
	single, _ := startWeir(b, policyFolder(b, 0), redis.URL, []int{redis.Pid()})
	clustered, cluster := clusterTarget(b, 1)
	one, many := measureCost(b, single, redis.Addr), measureCost(b, clustered, cluster.Nodes[0].Addr)
	row := func(what, format string, of func(*cost) float64) []string {
		return []string{what, fmt.Sprintf(format, of(one)), fmt.Sprintf(format, of(many))}
	}
	s.table("Per decision over gRPC: 10,000 keys, one limit, allowed, callers: 64", []string{"measured", "one Redis server", "Redis Cluster"},
		row("*w*: CPU of Weir", "%.1f us", func(c *cost) float64 { return c.weir }),
		row("*r*: CPU of Redis", "%.1f us", func(c *cost) float64 { return c.redis }),
		row("*c*: request and response, with HTTP/2", "%.0f bytes", func(c *cost) float64 { return c.caller }),
		row("*s*: command and reply, to and from Redis", "%.0f bytes", func(c *cost) float64 { return c.toRedis }),
	)
	s.table("Needed", []string{"for 1,000,000 decisions a second, with a Cluster", "formula", "result"}, many.needs()...)
	s.note(fmt.Sprintf("One Redis server, with 40%% headroom, decides 600,000 us / *r* = %s a second; above that, use\n"+
		"Redis Cluster. *r* and *w* include the kernel's work for loopback connections. TCP and IP headers\n"+
		"are not included in the bytes. Redis replicas, if you run them, add CPU and network of their own.", thousands(600_000/one.redis)))
}

// needs returns the rows for a million decisions a second: formulas and their results.
func (c *cost) needs() [][]string {
	const (
		replicaCores = 4
		used         = 0.6 // of each core
	)
	gigabits := func(bytes float64) string { return fmt.Sprintf("%.1f Gbit/s", bytes*8/1e3) }
	count := func(n float64) string { return fmt.Sprintf("%.0f", math.Ceil(n)) }
	return [][]string{
		{"cores that Weir keeps busy", "*w* / 1 us", count(c.weir)},
		{"replicas of Weir with 4 cores each, 40% headroom", "*w* / 1 us / 4 / 0.6", count(c.weir / replicaCores / used)},
		{"Cluster masters, one core each, 40% headroom", "*r* / 1 us / 0.6", count(c.redis / used)},
		{"network between callers and Weir", "*c* x 8 bits x 1,000,000", gigabits(c.caller)},
		{"network between Weir and Redis", "*s* x 8 bits x 1,000,000", gigabits(c.toRedis)},
	}
}

// thousands rounds to whole thousands.
func thousands(n float64) string { return fmt.Sprintf("%.0f,000", n/1e3) }

// measureCost measures decisions of the target, whose Redis has the address.
func measureCost(tb testing.TB, weir *target, redisAddr string) *cost {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer func() { _ = client.Close() }()
	var transferred atomic.Int64
	w := manyAllowed()
	counted := *weir
	counted.connect = func(tb testing.TB, address string, w *workload) sender {
		tb.Helper()
		c := newClient(tb, address, grpc.WithContextDialer(countingDialer(&transferred)))
		return func(ctx context.Context, i int) (bool, error) {
			r, err := c.ShouldRateLimit(ctx, w.grpc[i])
			return r.GetOverallCode() == ratelimitv3.RateLimitResponse_OK, err
		}
	}
	l := &load{name: weir.name, target: weir, calls: w.overGRPC(tb, &counted, 64)}
	run(tb, l, *duration/10)
	toCaller, toRedis := transferred.Load(), redisBytes(tb, client)
	calls := 0
	cpu, redisTime := testenv.CPUTime(tb, weir.pid), testenv.CPUTime(tb, weir.redis...)
	for _, latencies := range run(tb, l, *duration) {
		calls += len(latencies)
	}
	NewWithT(tb).Expect(calls).To(BeNumerically(">", 0))
	each := func(n float64) float64 { return n / float64(calls) }
	return &cost{
		weir:    each(float64((testenv.CPUTime(tb, weir.pid) - cpu).Microseconds())),
		redis:   each(float64((testenv.CPUTime(tb, weir.redis...) - redisTime).Microseconds())),
		caller:  each(float64(transferred.Load() - toCaller)),
		toRedis: each(float64(redisBytes(tb, client) - toRedis)),
	}
}

var redisTraffic = regexp.MustCompile(`total_net_(?:input|output)_bytes:(\d+)`)

// redisBytes returns the bytes that the server has received and sent.
func redisBytes(tb testing.TB, client *redis.Client) int64 {
	tb.Helper()
	info, err := client.Info(tb.Context(), "stats").Result()
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	var total int64
	for _, match := range redisTraffic.FindAllStringSubmatch(info, -1) {
		n, err := strconv.ParseInt(match[1], 10, 64)
		NewWithT(tb).Expect(err).NotTo(HaveOccurred())
		total += n
	}
	return total
}

// countingDialer returns a dialer that counts the bytes of its connections.
func countingDialer(total *atomic.Int64) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		return &countedConn{Conn: c, total: total}, err
	}
}

// countedConn is a connection that counts its bytes.
type countedConn struct {
	net.Conn

	total *atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.total.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.total.Add(int64(n))
	return n, err
}
