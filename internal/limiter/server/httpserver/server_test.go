// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/server/listen"
)

// running is a started server under test.
type running struct {
	*Server
	url        string
	client     *http.Client
	stop       context.CancelFunc
	drainDelay chan time.Time // ends the drain delay
	ended      chan error
}

func start(t *testing.T, o Options) *running {
	t.Helper()
	g := NewWithT(t)
	o.Address = "127.0.0.1:0"
	o.Logger = slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	s := &running{
		Server: New(o), stop: stop, client: &http.Client{Transport: &http.Transport{}},
		drainDelay: make(chan time.Time, 1), ended: make(chan error, 1),
	}
	s.listener = listen.New(listen.Options{
		Address: o.Address, DrainTimeout: s.options.DrainTimeout,
		After: func(time.Duration) <-chan time.Time { return s.drainDelay },
	})
	go func() { s.ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		s.client.CloseIdleConnections()
	})
	g.Eventually(s.Addr).ShouldNot(BeEmpty())
	s.url = "http://" + s.Addr()
	return s
}

// get returns the status and the body at that path.
func (s *running) get(path string) (int, string, error) {
	r, err := s.client.Get(s.url + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	return r.StatusCode, string(body), err
}

// gate is a handler whose requests to /wait end when it opens. It answers others immediately.
type gate struct{ entered, open chan struct{} }

func newGate() *gate {
	return &gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/wait" {
		g.entered <- struct{}{}
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
	}
	_, _ = io.WriteString(w, "ok")
}

// getLater sends a request that waits at the gate. The channel receives its status, or 0 for an
// error.
func (s *running) getLater() <-chan int {
	status := make(chan int, 1)
	go func() {
		got, _, _ := s.get("/wait")
		status <- got
	}()
	return status
}

func TestServerCallsOnDrainOnce(t *testing.T) {
	g := NewWithT(t)
	drains := make(chan struct{}, 2)
	s := start(t, Options{Handler: newGate(), DrainTimeout: time.Minute, OnDrain: func() { drains <- struct{}{} }})
	g.Expect(drains).NotTo(Receive())
	s.stop()
	g.Eventually(drains).Should(Receive())
	s.drainDelay <- time.Time{}
	g.Eventually(s.ended).Should(Receive(BeNil()))
	g.Expect(drains).NotTo(Receive())
}

func TestServerServesDuringTheDrainDelay(t *testing.T) {
	g := NewWithT(t)
	drains := make(chan struct{}, 1)
	s := start(t, Options{Handler: newGate(), DrainTimeout: time.Minute, OnDrain: func() { drains <- struct{}{} }})
	s.stop()
	g.Eventually(drains).Should(Receive())
	r, err := s.client.Get(s.url)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Body.Close()).To(Succeed())
	g.Expect(r.StatusCode).To(Equal(http.StatusOK))
	g.Expect(r.Close).To(BeTrue(), "the answer closes the connection")
	s.drainDelay <- time.Time{}
	g.Eventually(s.ended).Should(Receive(BeNil()))
}

func TestDrainingServerFinishesRequests(t *testing.T) {
	g := NewWithT(t)
	handler := newGate()
	s := start(t, Options{Handler: handler, DrainTimeout: time.Minute})
	inFlight := s.getLater()
	<-handler.entered
	s.stop()
	s.drainDelay <- time.Time{}
	g.Eventually(func() error {
		connection, err := net.Dial("tcp", s.Addr())
		if err == nil {
			_ = connection.Close()
		}
		return err
	}).Should(HaveOccurred(), "a draining server accepts no connection")
	g.Expect(s.ended).NotTo(Receive())
	close(handler.open)
	g.Eventually(inFlight).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.ended).Should(Receive(BeNil()))
}

func TestServerCutsOffAfterTheDrainTimeout(t *testing.T) {
	g := NewWithT(t)
	handler := newGate()
	s := start(t, Options{Handler: handler, DrainTimeout: time.Millisecond})
	inFlight := s.getLater()
	<-handler.entered
	s.stop()
	s.drainDelay <- time.Time{}
	var err error
	g.Eventually(s.ended).Should(Receive(&err))
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Eventually(inFlight).Should(Receive(Equal(0)))
	close(handler.open)
}

func TestServerStopsAtOnceWithoutRequests(t *testing.T) {
	g := NewWithT(t)
	s := New(Options{Address: "127.0.0.1:0", Handler: http.NotFoundHandler()})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	g.Expect(s.Start(ctx)).To(Succeed())
}

func TestServerReportsATakenAddress(t *testing.T) {
	g := NewWithT(t)
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	s := New(Options{Address: taken.Listener.Addr().String(), Handler: http.NotFoundHandler()})
	var failed *net.OpError
	g.Expect(errors.As(s.Start(t.Context()), &failed)).To(BeTrue())
	g.Expect(s.Addr()).To(BeEmpty())
}

func TestServerServesTLS(t *testing.T) {
	g := NewWithT(t)
	other := httptest.NewTLSServer(nil) // lends its certificate
	defer other.Close()
	s := start(t, Options{
		Handler: newGate(),
		TLS:     &tls.Config{Certificates: other.TLS.Certificates, MinVersion: tls.VersionTLS12},
	})
	s.client, s.url = other.Client(), "https://"+s.Addr()
	status, _, err := s.get("/")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(Equal(http.StatusOK))
	s.stop()
	s.drainDelay <- time.Time{}
	g.Eventually(s.ended).Should(Receive(BeNil()))
}

func TestServerReportsUnusableTLS(t *testing.T) {
	g := NewWithT(t)
	s := New(Options{Address: "127.0.0.1:0", Handler: http.NotFoundHandler(), TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	g.Expect(s.Start(t.Context())).NotTo(Succeed())
}

func TestServerHasTimeouts(t *testing.T) {
	server := New(Options{Handler: http.NotFoundHandler()}).server()
	NewWithT(t).Expect([]time.Duration{server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout}).
		To(Equal([]time.Duration{5 * time.Second, 10 * time.Second, 10 * time.Second, 2 * time.Minute}))
}

func TestServerHasTheReadTimeoutOfItsOptions(t *testing.T) {
	server := New(Options{Handler: http.NotFoundHandler(), ReadTimeout: time.Second}).server()
	NewWithT(t).Expect([]time.Duration{server.ReadHeaderTimeout, server.ReadTimeout}).To(HaveEach(time.Second))
}

func TestServerClosesAConnectionAfterASingleRequest(t *testing.T) {
	g := NewWithT(t)
	wrapped := make(chan net.Listener, 1)
	s := start(t, Options{Handler: newGate(), SingleRequest: true, Listener: func(inner net.Listener) net.Listener {
		wrapped <- inner
		return inner
	}})
	g.Expect(wrapped).To(Receive())
	r, err := s.client.Get(s.url)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Body.Close()).To(Succeed())
	g.Expect(r.Close).To(BeTrue())
	s.stop()
	s.drainDelay <- time.Time{}
	g.Eventually(s.ended).Should(Receive(BeNil()))
}

func TestServerBoundsHeaders(t *testing.T) {
	g := NewWithT(t)
	g.Expect(New(Options{Handler: http.NotFoundHandler()}).server().MaxHeaderBytes).To(Equal(64 << 10))
	s := start(t, Options{Handler: newGate()})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
	g.Expect(err).NotTo(HaveOccurred())
	for size, status := range map[int]int{60 << 10: 200, 128 << 10: 431} {
		r.Header.Set("X-Long", strings.Repeat("x", size))
		answer, err := s.client.Do(r)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Body.Close()).To(Succeed())
		g.Expect(answer.StatusCode).To(Equal(status))
	}
	s.stop()
	s.drainDelay <- time.Time{}
	g.Eventually(s.ended, "30s").Should(Receive(BeNil()))
}
