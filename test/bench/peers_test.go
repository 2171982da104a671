// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc"

	"github.com/weir-dev/weir/test/conform/system/gubernator"
	"github.com/weir-dev/weir/test/testenv"
)

var (
	ratelimitBin  = flag.String("ratelimit-bin", "", "program of envoyproxy/ratelimit (default: not compared)")
	gubernatorBin = flag.String("gubernator-bin", "", "program of gubernator (default: not compared)")
)

// peers starts the other rate limiters whose programs are given.
func peers(tb testing.TB) []*target {
	tb.Helper()
	var all []*target
	if *ratelimitBin != "" {
		all = append(all, ratelimitTarget(tb))
	}
	if *gubernatorBin != "" {
		all = append(all, gubernatorTarget(tb))
	}
	return all
}

// ratelimitConfig has the limits of policiesOfBench, with windows of a year: windows are
// aligned to the clock, and none must end during a run.
const ratelimitConfig = `
domain: bench
descriptors:
  - {key: allowed, rate_limit: {unit: year, requests_per_unit: 2000000000}}
  - {key: denied, rate_limit: {unit: year, requests_per_unit: 1}}
`

// ratelimitTarget starts envoyproxy/ratelimit on an empty Redis: without statistics, with one
// connection per caller of the usual scenario, and with the cache of denied keys.
func ratelimitTarget(tb testing.TB) *target {
	tb.Helper()
	g := NewWithT(tb)
	root := tb.TempDir()
	config := filepath.Join(root, "ratelimit", "config")
	g.Expect(os.MkdirAll(config, 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(ratelimitConfig), 0o600)).To(Succeed())
	redis := testenv.StartRedis(tb)
	address := testenv.FreeAddr(tb)
	cmd := testenv.Command(*ratelimitBin)
	cmd.Env = append(os.Environ(),
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, "REDIS_POOL_SIZE=64",
		"LOCAL_CACHE_SIZE_IN_BYTES=67108864", "USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
		"GRPC_HOST=127.0.0.1", "GRPC_PORT="+portOf(tb, address),
		"HOST=127.0.0.1", "PORT="+portOf(tb, testenv.FreeAddr(tb)),
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+portOf(tb, testenv.FreeAddr(tb)),
	)
	t := &target{
		name: peerName, address: address, connect: connectEnvoy,
		pid: startProcess(tb, cmd, address), redis: []int{redis.Pid()},
	}
	awaitDecisions(tb, t)
	return t
}

// gubernatorTarget starts gubernator as a cluster of one, so that it decides in its own
// memory and sends nothing to others. Its member list needs the free port 7946.
func gubernatorTarget(tb testing.TB) *target {
	tb.Helper()
	address := testenv.FreeAddr(tb)
	cmd := testenv.Command(*gubernatorBin)
	cmd.Env = append(os.Environ(),
		"GUBER_GRPC_ADDRESS="+address, "GUBER_HTTP_ADDRESS="+testenv.FreeAddr(tb),
		"GUBER_ADVERTISE_ADDRESS="+address, "GUBER_CACHE_SIZE=100000", "GUBER_LOG_LEVEL=error",
	)
	t := &target{
		name: "gubernator, in memory", address: address, connect: connectGubernator,
		pid: startProcess(tb, cmd, address),
	}
	awaitDecisions(tb, t)
	return t
}

// awaitDecisions waits until the target decides: it may accept connections before that.
func awaitDecisions(tb testing.TB, t *target) {
	tb.Helper()
	send := t.connect(tb, t.address, oneAllowed())
	NewWithT(tb).Eventually(func() error {
		_, err := send(tb.Context(), 0)
		return err
	}, "30s", "10ms").Should(Succeed(), t.name)
}

// connectGubernator is the connector of gubernator's protocol.
func connectGubernator(tb testing.TB, address string, w *workload) sender {
	tb.Helper()
	client := gubernator.NewClient(newConn(tb, address))
	requests := make([][]gubernator.Request, len(w.grpc))
	for i := range requests {
		requests[i] = []gubernator.Request{gubernatorRequest(w, i)}
	}
	return func(ctx context.Context, i int) (bool, error) {
		answers, err := client.GetRateLimits(ctx, requests[i])
		return err == nil && !answers[0].Over, err
	}
}

// gubernatorRequest returns the request of one hit.
func gubernatorRequest(w *workload, i int) gubernator.Request {
	r := gubernator.Request{Name: w.entry, Key: userOf(i), Hits: 1, Limit: 2_000_000_000, Duration: 24 * time.Hour}
	if w.denied() {
		r.Limit = 1
	}
	return r
}

// gubernator's requests over gRPC, against a server that answers every second one with
// OVER_LIMIT.
func TestGubernatorCalls(t *testing.T) {
	g := NewWithT(t)
	var calls atomic.Int64
	server := grpc.NewServer(grpc.ForceServerCodec(gubernator.Codec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		g.Expect(method).To(Equal(gubernator.GetRateLimits))
		var request []byte
		g.Expect(stream.RecvMsg(&request)).To(Succeed())
		g.Expect(request).To(Equal(gubernator.Encode([]gubernator.Request{gubernatorRequest(oneAllowed(), 0)})))
		reply := []byte{0x0a, 0x02, 0x08, byte((calls.Add(1) - 1) % 2)}
		return stream.SendMsg(&reply)
	}))
	defer server.Stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	go func() { _ = server.Serve(listener) }()
	send := connectGubernator(t, listener.Addr().String(), oneAllowed())
	g.Expect(send(t.Context(), 0)).To(BeTrue())
	g.Expect(send(t.Context(), 0)).To(BeFalse())
}
