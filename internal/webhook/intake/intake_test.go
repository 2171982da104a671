// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/server/httpserver"
)

// Sources of the tests. Linux routes all of 127.0.0.0/8 to the loopback interface.
const (
	apiServer = "127.0.0.1"
	pod       = "127.0.0.2"
)

// patient are the bounds for tests that measure no timeout: a busy machine takes longer than the default.
var patient = func() bounds {
	b := defaultBounds
	b.read, b.judge = time.Minute, time.Minute
	return b
}()

// served is an Intake behind a TLS server, as the webhook runs it.
type served struct {
	*Intake
	t       *testing.T
	address string
	roots   *tls.Config
}

func serve(t *testing.T, judged int, b bounds, next http.HandlerFunc) *served {
	t.Helper()
	lender := httptest.NewTLSServer(nil)
	t.Cleanup(lender.Close)
	in := newIntake(Options{Judged: judged, Registerer: prometheus.NewRegistry()}, b)
	server := httpserver.New(httpserver.Options{
		Address: "127.0.0.1:0", Handler: in.Handler(next), Logger: slog.New(slog.DiscardHandler), DrainTimeout: time.Minute,
		TLS:      &tls.Config{MinVersion: tls.VersionTLS12, Certificates: lender.TLS.Certificates},
		Listener: in.Listener, ConnContext: in.ConnContext, ReadTimeout: b.read, SingleRequest: true,
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		NewWithT(t).Eventually(ended, "30s").Should(Receive(BeNil()))
	})
	NewWithT(t).Eventually(server.Addr).ShouldNot(BeEmpty())
	return &served{Intake: in, t: t, address: server.Addr(), roots: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}}
}

// dial opens a TCP connection from the source.
func (s *served) dial(source string) net.Conn {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	c, err := dialer.DialContext(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// send opens a TLS connection from the source and writes the text.
func (s *served) send(source, text string) net.Conn {
	s.t.Helper()
	c := tls.Client(s.dial(source), s.roots)
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// post sends a complete request and returns the status, 0 without a response.
func (s *served) post(source string, body io.Reader) int {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: s.roots.Clone(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "https://"+s.address, body)
	if err != nil {
		return 0
	}
	got, err := transport.RoundTrip(request)
	if err != nil {
		return 0
	}
	defer func() { _ = got.Body.Close() }()
	if got.ProtoMajor != 1 || !got.Close {
		return -1
	}
	return got.StatusCode
}

func (s *served) rejections(reason string) func() int {
	return func() int { return int(testutil.ToFloat64(s.rejected.WithLabelValues(reason))) }
}

func ok(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// A pod with 500 connections that send nothing, half a header or half a body does not delay
// the API server, which sends from another address.
func TestSlowConnectionsDoNotDelayOtherSources(t *testing.T) {
	g := NewWithT(t)
	s := serve(t, 2, patient, ok)
	median := func() time.Duration {
		var took []time.Duration
		for range 50 {
			started := time.Now()
			g.Expect(s.post(apiServer, strings.NewReader("{}"))).To(Equal(http.StatusOK))
			took = append(took, time.Since(started))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	before := median()
	s.dialSlowly(500)
	g.Eventually(s.rejections(reasonConnections)).Should(Equal(500 - 208))
	g.Expect(median()).To(BeNumerically("<", max(20*before, time.Second)), "without the connections: %v", before)
}

// dialSlowly opens connections from the pod that send nothing, half a header or half a body.
func (s *served) dialSlowly(connections int) {
	for i := range connections {
		c := s.dial(pod)
		if text := []string{"", "POST / HTTP/1.1\r\nHost: a\r\nX-", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n{"}[i%3]; text != "" {
			go func() { _, _ = io.WriteString(tls.Client(c, s.roots), text) }()
		}
	}
}

func TestSlowConnectionsEnd(t *testing.T) {
	b := patient
	b.read = 200 * time.Millisecond
	s := serve(t, 2, b, ok)
	s.dialSlowly(24)
	NewWithT(t).Eventually(s.rejections(reasonIncomplete)).Should(BeNumerically(">=", 8))
}

// Slow bodies on 1,000 connections of ten addresses take at most 64 MiB.
func TestSlowBodiesTakeBoundedMemory(t *testing.T) {
	g := NewWithT(t)
	s := serve(t, 2, patient, ok)
	g.Expect(s.post(apiServer, strings.NewReader("{}"))).To(Equal(http.StatusOK))
	memory := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	before := memory()
	for i := range 1000 {
		c := s.dial(fmt.Sprintf("127.0.1.%d", 1+i/100))
		if i%100 >= patient.served {
			continue // it waits unread
		}
		go func() {
			_, _ = io.WriteString(tls.Client(c, s.roots), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n{")
		}()
	}
	g.Eventually(func() bool {
		if s.bodies.TryAcquire(4_000_000) {
			s.bodies.Release(4_000_000)
			return false
		}
		return true
	}, "30s").Should(BeTrue(), "the bodies take the memory")
	added := memory() - before
	t.Log("MiB added:", added>>20)
	g.Expect(added).To(BeNumerically("<", 64<<20))
}

// A burst of one source, such as an API server behind one address, is judged completely.
func TestBurstOfOneSourceIsJudged(t *testing.T) {
	g := NewWithT(t)
	var inside, most atomic.Int64
	s := serve(t, 2, patient, func(w http.ResponseWriter, r *http.Request) {
		n := inside.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		ok(w, r)
		inside.Add(-1)
	})
	var all sync.WaitGroup
	var answered atomic.Int64
	for range 200 {
		all.Go(func() {
			if s.post(apiServer, strings.NewReader("{}")) == http.StatusOK {
				answered.Add(1)
			}
		})
	}
	all.Wait()
	g.Expect(answered.Load()).To(Equal(int64(200)))
	g.Expect(most.Load()).To(BeNumerically("<=", 2))
}

// One source cannot take all of the memory: another one's body is read at once.
func TestBodiesAreBounded(t *testing.T) {
	g := NewWithT(t)
	s := serve(t, 2, patient, ok)
	for range 8 {
		s.send(pod, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n{")
	}
	g.Eventually(func() bool { return s.bodies.TryAcquire(24 << 20) }).Should(BeTrue(), "one source has 8 MiB")
	g.Consistently(func() bool { return s.bodies.TryAcquire(1 + 8<<20) }, "50ms", "10ms").Should(BeFalse())
	s.bodies.Release(24 << 20)
	large := bytes.Repeat([]byte(" "), 4<<20)
	g.Expect(s.post(apiServer, bytes.NewReader(large))).To(Equal(http.StatusOK))
	g.Expect(s.post(apiServer, bytes.NewReader(append(large, ' ')))).To(Equal(http.StatusRequestEntityTooLarge))
	g.Expect(s.post(apiServer, io.MultiReader(strings.NewReader("{}")))).To(Equal(http.StatusLengthRequired), "chunked")
	g.Expect(s.rejections(reasonSize)()).To(Equal(2))
}

func TestBodyWaitsForMemoryOnlyBriefly(t *testing.T) {
	g := NewWithT(t)
	b := patient
	b.read = 300 * time.Millisecond
	s := serve(t, 2, b, ok)
	g.Expect(s.bodies.TryAcquire(b.bodies)).To(BeTrue())
	g.Expect(s.post(apiServer, strings.NewReader("{}"))).To(Equal(http.StatusServiceUnavailable))
	g.Expect(s.rejections(reasonMemory)()).To(Equal(1))
	s.bodies.Release(b.bodies)
	g.Eventually(func() int { return s.post(apiServer, strings.NewReader("{}")) }).Should(Equal(http.StatusOK))
}

func TestSlowBodyGetsAnAnswer(t *testing.T) {
	g := NewWithT(t)
	b := patient
	b.read = 200 * time.Millisecond
	s := serve(t, 1, b, ok)
	c := s.send(pod, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
	text, err := io.ReadAll(c)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(HavePrefix("HTTP/1.1 408 "))
	g.Expect(s.rejections(reasonIncomplete)()).To(Equal(1))
}

// A request may be judged for longer than it may be read, but not forever.
func TestJudgingHasItsOwnTimeout(t *testing.T) {
	g := NewWithT(t)
	b := patient
	b.read, b.judge = 50*time.Millisecond, 500*time.Millisecond
	s := serve(t, 1, b, func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		<-r.Context().Done()
		_, _ = fmt.Fprint(w, time.Since(started) >= 400*time.Millisecond)
	})
	c := s.send(apiServer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
	text, err := io.ReadAll(c)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(And(HavePrefix("HTTP/1.1 200 "), HaveSuffix("true")))
}

// A client that does not read its response holds no slot.
func TestSlotIsFreeWhileTheResponseIsWritten(t *testing.T) {
	g := NewWithT(t)
	s := serve(t, 1, patient, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body) == 2 {
			_, _ = w.Write(make([]byte, 32<<20)) // more than the buffers of the sockets
		}
	})
	s.send(pod, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
	g.Expect(s.post(apiServer, strings.NewReader("{ }"))).To(Equal(http.StatusOK))
}

// A client that disconnects while it waits for a slot is not judged.
func TestWaitingForASlotEndsWithTheClient(t *testing.T) {
	g := NewWithT(t)
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	s := serve(t, 1, patient, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	})
	go s.post(apiServer, strings.NewReader("{}"))
	g.Eventually(entered).Should(Receive())
	g.Expect(s.send(apiServer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}").Close()).To(Succeed())
	g.Eventually(s.rejections(reasonQueue)).Should(Equal(1))
	close(leave)
	g.Expect(s.post(apiServer, strings.NewReader("{}"))).To(Equal(http.StatusOK))
}
