// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/internal/testenv"
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
	cmd := exec.Command(*ratelimitBin)
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
	cmd := exec.Command(*gubernatorBin)
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
	}, "20s", "10ms").Should(Succeed(), t.name)
}

const gubernatorMethod = "/pb.gubernator.V1/GetRateLimits"

var errGubernator = errors.New("gubernator")

// connectGubernator is the connector of gubernator's protocol.
func connectGubernator(tb testing.TB, address string, w *workload) sender {
	tb.Helper()
	conn := newConn(tb, address, grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	requests := make([][]byte, len(w.grpc))
	for i := range requests {
		requests[i] = gubernatorRequest(w, i)
	}
	return func(ctx context.Context, i int) (bool, error) {
		var reply []byte
		if err := conn.Invoke(ctx, gubernatorMethod, &requests[i], &reply); err != nil {
			return false, err
		}
		return gubernatorAllows(reply)
	}
}

// gubernatorRequest encodes a GetRateLimitsReq with one RateLimitReq for one hit.
func gubernatorRequest(w *workload, i int) []byte {
	const hour = 3_600_000 // in milliseconds
	limit := uint64(2_000_000_000)
	if w.denied() {
		limit = 1
	}
	var one []byte
	one = appendText(one, 1, w.entry)      // name
	one = appendText(one, 2, userOf(i))    // unique_key
	one = appendNumber(one, 3, 1)          // hits
	one = appendNumber(one, 4, limit)      // limit
	one = appendNumber(one, 5, 24*hour)    // duration
	return appendText(nil, 1, string(one)) // requests
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// gubernatorAllows decodes a GetRateLimitsResp with one RateLimitResp. An absent status is
// UNDER_LIMIT.
func gubernatorAllows(reply []byte) (bool, error) {
	one, err := fieldOf(reply, 1) // responses
	if err != nil || one == nil {
		return false, fmt.Errorf("%w: response %x: %w", errGubernator, reply, err)
	}
	text, err := fieldOf(one.bytes, 5) // error
	if err != nil || text != nil {
		return false, fmt.Errorf("%w: response %q: %w", errGubernator, one.bytes, err)
	}
	status, err := fieldOf(one.bytes, 1) // status
	return status == nil || status.number == 0, err
}

// wireField is the value of one field of a message.
type wireField struct {
	number uint64
	bytes  []byte
}

// fieldOf returns the first value of a field; nil if the message has none.
func fieldOf(message []byte, field protowire.Number) (*wireField, error) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		if number == field {
			found := &wireField{}
			if kind == protowire.BytesType {
				found.bytes, _ = protowire.ConsumeBytes(message)
			} else {
				found.number, _ = protowire.ConsumeVarint(message)
			}
			return found, nil
		}
		message = message[size:]
	}
	return nil, nil //nolint:nilnil // a message may lack a field
}

// rawCodec sends and receives encoded messages, so that gubernator's generated code is not
// needed.
type rawCodec struct{}

var _ encoding.Codec = rawCodec{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func (rawCodec) Name() string { return "proto" }

// The codec of gubernator's messages, against bytes encoded by hand from its definition.
func TestGubernatorMessages(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gubernatorRequest(oneDenied(), 0)).To(Equal([]byte(
		"\x0a\x19" + "\x0a\x06denied" + "\x12\x06user-0" + "\x18\x01" + "\x20\x01" + "\x28\x80\xb8\x99\x29")))
	for reply, want := range map[string]bool{
		"\x0a\x02\x10\x01":         true,  // limit 1
		"\x0a\x04\x08\x00\x10\x01": true,  // UNDER_LIMIT
		"\x0a\x04\x08\x01\x10\x01": false, // OVER_LIMIT
	} {
		g.Expect(gubernatorAllows([]byte(reply))).To(Equal(want))
	}
	for _, reply := range []string{"", "\x0a\x03\x2a\x01x", "\x0a\x7f"} {
		_, err := gubernatorAllows([]byte(reply))
		g.Expect(err).To(MatchError(errGubernator))
	}
}

// gubernator's requests over gRPC, against a server that answers every second one with
// OVER_LIMIT.
func TestGubernatorCalls(t *testing.T) {
	g := NewWithT(t)
	var calls atomic.Int64
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		g.Expect(method).To(Equal(gubernatorMethod))
		var request []byte
		g.Expect(stream.RecvMsg(&request)).To(Succeed())
		g.Expect(request).To(Equal(gubernatorRequest(oneAllowed(), 0)))
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
