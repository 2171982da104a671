// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
	"github.com/weir-dev/weir/internal/limiter/server/grpcserver"
)

// bounded is a server with the default bounds, and a client of it.
type bounded struct {
	address string
	conn    *grpc.ClientConn
	metrics *prometheus.Registry
	secured bool
}

// clientTLS accepts any certificate.
var clientTLS = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}

// forEachTransport runs the test without and with TLS.
func forEachTransport(t *testing.T, test func(t *testing.T, s *bounded)) {
	t.Helper()
	for _, secured := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secured], func(t *testing.T) {
			test(t, serveBoundedWith(t, time.Minute, secured))
		})
	}
}

func serveBounded(t *testing.T, timeout time.Duration) *bounded {
	t.Helper()
	return serveBoundedWith(t, timeout, false)
}

// serveBoundedWith serves with TLS if secured.
func serveBoundedWith(t *testing.T, timeout time.Duration, secured bool) *bounded {
	t.Helper()
	g := NewWithT(t)
	var serverTLS *tls.Config
	transport := insecure.NewCredentials()
	if secured {
		lender := httptest.NewTLSServer(nil)
		t.Cleanup(lender.Close)
		serverTLS = &tls.Config{Certificates: lender.TLS.Certificates, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
		transport = credentials.NewTLS(clientTLS)
	}
	s := &bounded{metrics: prometheus.NewRegistry(), secured: secured}
	ctx, stop := context.WithCancel(t.Context())
	logger := slog.New(slog.DiscardHandler)
	server := grpcserver.New(grpcserver.Options{
		Address: "127.0.0.1:0", Services: []grpcserver.Service{echo{}}, Logger: logger, ReceiveTimeout: timeout, TLS: serverTLS,
		Connections: connlimit.New(connlimit.Options{Registerer: s.metrics, Logger: logger}),
	})
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	g.Eventually(server.Addr).ShouldNot(BeEmpty())
	s.address = server.Addr()
	var err error
	s.conn, err = grpc.NewClient(s.address, grpc.WithTransportCredentials(transport))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		_ = s.conn.Close()
		stop()
		NewWithT(t).Eventually(ended, "30s").Should(Receive(BeNil()))
	})
	return s
}

// check sends a call and returns its error.
func (s *bounded) check(ctx context.Context, domain string) error {
	_, err := ratelimitv3.NewRateLimitServiceClient(s.conn).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{Domain: domain})
	return err
}

// closed returns the number of connections that were closed for the reason.
func (s *bounded) closed(reason connlimit.Reason) float64 {
	families, err := s.metrics.Gather()
	if err != nil || len(families) == 0 {
		return 0
	}
	for _, m := range families[0].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetValue() == string(reason) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// memory returns the memory in use, in bytes.
func memory() int64 {
	runtime.GC()
	runtime.GC() // pools keep what they have for one cycle
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// whileServed runs attack while another client calls and is answered. attack calls measure between
// its steps. Returns the most memory that it measured, beyond that before the attack.
func (s *bounded) whileServed(t *testing.T, attack func(measure func())) (most int64) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.check(t.Context(), "a")).To(Succeed())
	before := memory()
	measure := func() { most = max(most, memory()-before) }
	var running atomic.Bool
	running.Store(true)
	var other sync.WaitGroup
	answered, failed := 0, 0
	other.Go(func() {
		for running.Load() {
			if s.check(t.Context(), "a") == nil {
				answered++
			} else {
				failed++
			}
		}
	})
	attack(measure)
	measure()
	running.Store(false)
	other.Wait()
	g.Expect(answered).NotTo(BeZero(), "calls of another client")
	g.Expect(failed).To(BeZero(), "calls of another client")
	t.Log("MiB added:", most>>20)
	return most
}

func TestUnfinishedMessagesOfOneConnectionAreBounded(t *testing.T) {
	forEachTransport(t, func(t *testing.T, s *bounded) {
		t.Helper()
		g := NewWithT(t)
		attacker := attack(t, s)
		most := s.whileServed(t, func(measure func()) {
			for i := range uint32(300) {
				if !attacker.sendUnfinished(2*i + 1) {
					break
				}
				measure()
			}
			g.Eventually(attacker.closed, "30s").Should(BeClosed())
		})
		g.Expect(most).To(BeNumerically("<", 64<<20))
		g.Expect(s.closed(connlimit.ReasonMemory)).To(Equal(1.0))
	})
}

func TestUnfinishedMessagesOfManyConnectionsAreBounded(t *testing.T) {
	forEachTransport(t, func(t *testing.T, s *bounded) {
		t.Helper()
		g := NewWithT(t)
		most := s.whileServed(t, func(measure func()) {
			var all sync.WaitGroup
			for i := range 300 {
				attacker := attack(t, s)
				all.Go(func() { attacker.sendUnfinished(1) })
				if i%20 == 19 {
					all.Wait()
					measure()
				}
			}
		})
		g.Expect(most).To(BeNumerically("<", 64<<20))
		g.Expect(s.closed(connlimit.ReasonMemory)).To(BeNumerically(">", 250))
	})
}

// Of a client that reads no responses gRPC keeps at most its streams.
func TestUnreadResponsesAreBounded(t *testing.T) {
	forEachTransport(t, func(t *testing.T, s *bounded) {
		t.Helper()
		g := NewWithT(t)
		most := s.whileServed(t, func(measure func()) {
			for range 20 {
				client := s.dial(t)
				g.Expect(client.SetWriteDeadline(time.Now().Add(2 * time.Second))).To(Succeed())
				_, _ = client.Write(append([]byte(preface), frameOf(settings, 0, 0, nil)...))
				for stream := uint32(1); stream < 4000; stream += 2 {
					if _, err := client.Write(callOf(stream, "a")); err != nil {
						break
					}
				}
				measure()
			}
		})
		g.Expect(most).To(BeNumerically("<", 64<<20))
	})
}

// Small frames take more memory than their bytes.
func TestFramesOfOneByteAreBounded(t *testing.T) {
	g := NewWithT(t)
	s := serveBounded(t, time.Minute)
	attacker := attack(t, s)
	drips := bytes.Repeat(frameOf(data, padded, 0, []byte{1, 'a', 0}), 10_000)
	most := s.whileServed(t, func(measure func()) {
		for stream := uint32(1); stream < 2000; stream += 2 {
			for i := 0; i < len(drips); i += 12 {
				binary.BigEndian.PutUint32(drips[i+5:], stream)
			}
			begin := append(headersOf(stream, checkMethod), frameOf(data, 0, stream, []byte{0, 0, 0x3f, 0, 0})...)
			if !attacker.write(begin) || !attacker.write(drips) {
				break
			}
			if stream%20 == 1 {
				measure()
			}
		}
		g.Eventually(attacker.closed, "30s").Should(BeClosed())
	})
	g.Expect(most).To(BeNumerically("<", 64<<20))
	g.Expect(s.closed(connlimit.ReasonMemory)).To(Equal(1.0))
}

// Header compression repeats a field of 4,000 bytes by one byte each.
func TestCompressedMetadataAreBounded(t *testing.T) {
	g := NewWithT(t)
	s := serveBounded(t, time.Minute)
	attacker := attack(t, s)
	most := s.whileServed(t, func(measure func()) {
		value := strings.Repeat("YWFh", 990) // decoded for each use
		indexed := append([]byte{0x40, 5, 'a', '-', 'b', 'i', 'n', 0x7f, 0xf9, 0x1d}, value...)
		for stream := uint32(1); stream < 2000; stream += 2 {
			block := fields(":method", "POST", ":scheme", "http", ":path", checkMethod,
				":authority", "a", "content-type", "application/grpc", "te", "trailers")
			if stream == 1 {
				block = append(block, indexed...)
			} else {
				block = append(block, bytes.Repeat([]byte{0x80 | 62}, 250)...)
			}
			if !attacker.write(frameOf(headers, endHeaders, stream, block)) {
				break
			}
			if stream%200 == 1 {
				measure()
			}
		}
	})
	g.Expect(most).To(BeNumerically("<", 64<<20))
}

func TestSlowRequestsEnd(t *testing.T) {
	for name, send := range map[string]func(a *attacker){
		"half a message": func(a *attacker) {
			a.write(headersOf(1, checkMethod))
			a.write(frameOf(data, 0, 1, []byte{0, 0, 0, 0, 9, 'a'}))
		},
		"no message": func(a *attacker) { a.write(headersOf(1, checkMethod)) },
		"one byte at a time": func(a *attacker) {
			a.write(headersOf(1, checkMethod))
			a.write(frameOf(data, 0, 1, []byte{0, 0, 0, 0xff, 0xff}))
			for a.write(frameOf(data, 0, 1, []byte{'a'})) {
				select {
				case <-a.closed:
				case <-time.After(time.Millisecond):
				}
			}
		},
		"half a frame": func(a *attacker) { a.write(headersOf(1, checkMethod)[:40]) },
		"headers without an end": func(a *attacker) {
			a.write(frameOf(headers, 0, 1, nil))
			for a.write(frameOf(continuation, 0, 1, fields("a", "b"))) {
				select {
				case <-a.closed:
				case <-time.After(time.Millisecond):
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := serveBounded(t, 300*time.Millisecond)
			attacker := attack(t, s)
			send(attacker)
			g.Eventually(attacker.closed, "30s").Should(BeClosed())
			g.Expect(s.closed(connlimit.ReasonTimeout)).To(Equal(1.0))
			g.Expect(s.check(t.Context(), "a")).To(Succeed())
		})
	}
}

func TestLastingCallsOutliveTheTimeout(t *testing.T) {
	g := NewWithT(t)
	s := serveBounded(t, 50*time.Millisecond)
	watch, err := healthpb.NewHealthClient(s.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = watch.Recv()
	g.Expect(err).NotTo(HaveOccurred())
	halfOpen := attack(t, s) // does not end its side of the stream, as reflection clients
	halfOpen.write(headersOf(1, healthpb.Health_Watch_FullMethodName))
	halfOpen.write(frameOf(data, 0, 1, []byte{0, 0, 0, 0, 0}))
	slow := attack(t, s)
	slow.write(headersOf(1, checkMethod))
	g.Eventually(slow.closed, "30s").Should(BeClosed())
	g.Consistently(halfOpen.closed, "200ms").ShouldNot(BeClosed())
	g.Expect(s.check(t.Context(), "a")).To(Succeed())
	g.Expect(s.closed(connlimit.ReasonTimeout)).To(Equal(1.0))
}

// A proxy sends many large calls at a time on one connection.
func TestManyLargeCallsAreServed(t *testing.T) {
	g := NewWithT(t)
	s := serveBounded(t, time.Minute)
	large := strings.Repeat("a", 30<<10)
	var all sync.WaitGroup
	var failed atomic.Int64
	for range 1000 {
		all.Go(func() {
			if s.check(t.Context(), large) != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	g.Expect(failed.Load()).To(BeZero())
	g.Expect(s.closed(connlimit.ReasonMemory)).To(BeZero())
}

// Calls that their client resets, or that the server ends early, hold nothing.
func TestEndedCallsHoldNothing(t *testing.T) {
	g := NewWithT(t)
	s := serveBounded(t, 3*time.Second) // a busy machine may stop for a second between a call and its end
	attacker := attack(t, s)
	unknown := int64(0)
	unanswered := func() int64 { return unknown - attacker.answered.Load() }
	for stream := uint32(1); stream < 20_000; stream += 2 {
		method := []string{checkMethod, "/unknown"}[stream/2%2]
		burst := append(headersOf(stream, method), frameOf(data, 0, stream, []byte{0, 0, 0, 0xff, 0xff})...)
		if method == checkMethod {
			burst = append(burst, frameOf(reset, 0, stream, []byte{0, 0, 0, 8})...)
		} else {
			unknown++
		}
		g.Expect(attacker.write(burst)).To(BeTrue())
		if unanswered() > 500 { // what a busy server has not yet answered does hold memory
			g.Eventually(unanswered, "30s").Should(BeNumerically("<", 100))
		}
	}
	g.Expect(s.check(t.Context(), "a")).To(Succeed())
	g.Consistently(attacker.closed, "4s").ShouldNot(BeClosed())
}

// counted is echo that counts its calls by domain.
type counted struct {
	echo
	canceled, answered atomic.Int64
}

func (c *counted) Register(r grpc.ServiceRegistrar) { ratelimitv3.RegisterRateLimitServiceServer(r, c) }

func (c *counted) ShouldRateLimit(ctx context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	if r.GetDomain() == "canceled" {
		c.canceled.Add(1)
	} else {
		c.answered.Add(1)
	}
	return c.echo.ShouldRateLimit(ctx, r)
}

// A proxy that hangs up while the server waits sends the call and its cancellation together.
func TestCallsThatArriveCanceledAreNotDecided(t *testing.T) {
	g := NewWithT(t)
	service := &counted{}
	a := attack(t, &bounded{address: serve(t, service).Target()})
	others := bytes.Repeat(frameOf(windowUpdate, 0, 0, []byte{0, 0, 0, 1}), 500) // take the server some time
	for i := range 200 {
		canceled := uint32(4*i + 1)
		together := append(callOf(canceled, "canceled"), others...)
		together = append(together, frameOf(reset, 0, canceled, []byte{0, 0, 0, 8})...)
		g.Expect(a.write(append(together, callOf(canceled+2, "kept")...))).To(BeTrue())
		g.Eventually(a.answered.Load, "30s", "100us").Should(BeNumerically(">=", i+1))
	}
	g.Expect(service.answered.Load()).To(BeNumerically("==", 200))
	g.Expect(service.canceled.Load()).To(BeZero())
}
