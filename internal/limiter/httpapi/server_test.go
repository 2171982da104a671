// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

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

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// running is a started server under test.
type running struct {
	*Server
	url      string
	client   *http.Client
	stop     context.CancelFunc
	lameDuck chan time.Time // ends the lame-duck time
	ended    chan error
}

func start(t *testing.T, o ServerOptions) *running {
	t.Helper()
	g := NewWithT(t)
	o.Address = "127.0.0.1:0"
	o.Logger = slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	s := &running{
		Server: NewServer(o), stop: stop, client: &http.Client{Transport: &http.Transport{}},
		lameDuck: make(chan time.Time, 1), ended: make(chan error, 1),
	}
	s.after = func(time.Duration) <-chan time.Time { return s.lameDuck }
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

// gate is an engine whose decisions wait until they are let through.
type gate struct {
	fakeEngine
	entered, open chan struct{}
}

func newGate() *gate {
	e := &gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
	e.snapshot = plan.NewSnapshot(1, nil)
	e.decide = func(ctx context.Context, _ *limiter.Check) (*limiter.Decision, error) {
		e.entered <- struct{}{}
		select {
		case <-e.open:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed}, nil
	}
	return e
}

// checkLater posts a check and returns where its status will be; 0 is none.
func (s *running) checkLater() <-chan int {
	status := make(chan int, 1)
	go func() {
		r, err := s.client.Post(s.url+pathCheck, answer.TypeJSON, strings.NewReader(namedCheck))
		if err != nil {
			status <- 0
			return
		}
		_ = r.Body.Close()
		status <- r.StatusCode
	}()
	return status
}

func TestServerDrains(t *testing.T) {
	g := NewWithT(t)
	engine := newGate()
	s := start(t, ServerOptions{Handler: newHandler(engine), DrainTimeout: time.Minute})
	status, _, err := s.get(pathReady)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(Equal(http.StatusOK))

	inFlight := s.checkLater()
	<-engine.entered
	s.stop()
	g.Eventually(func() (int, error) {
		status, _, err := s.get(pathReady)
		return status, err
	}).Should(Equal(http.StatusServiceUnavailable))
	_, why, err := s.get(pathReady)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(why).To(ContainSubstring("draining"))

	r, err := s.client.Get(s.url + pathPolicies)
	g.Expect(err).NotTo(HaveOccurred(), "a lame duck still serves")
	g.Expect(r.Body.Close()).To(Succeed())
	g.Expect(r.StatusCode).To(Equal(http.StatusOK))
	g.Expect(r.Close).To(BeTrue(), "a lame duck sends its clients away")

	s.lameDuck <- time.Time{}
	g.Eventually(func() error {
		connection, err := net.Dial("tcp", s.Addr())
		if err == nil {
			_ = connection.Close()
		}
		return err
	}).Should(HaveOccurred(), "a draining server accepts nothing")
	g.Expect(s.ended).NotTo(Receive())
	close(engine.open)
	g.Eventually(inFlight).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.ended).Should(Receive(BeNil()))
}

func TestServerCutsOffAfterTheDrainTimeout(t *testing.T) {
	g := NewWithT(t)
	engine := newGate()
	s := start(t, ServerOptions{Handler: newHandler(engine), DrainTimeout: time.Millisecond})
	inFlight := s.checkLater()
	<-engine.entered
	s.stop()
	s.lameDuck <- time.Time{}
	var err error
	g.Eventually(s.ended).Should(Receive(&err))
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Eventually(inFlight).Should(Receive(Equal(0)))
	close(engine.open)
}

func TestServerStopsAtOnceWithoutRequests(t *testing.T) {
	g := NewWithT(t)
	s := NewServer(ServerOptions{Address: "127.0.0.1:0", Handler: http.NotFoundHandler()})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	g.Expect(s.Start(ctx)).To(Succeed())
}

func TestServerReportsATakenAddress(t *testing.T) {
	g := NewWithT(t)
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	s := NewServer(ServerOptions{Address: taken.Listener.Addr().String(), Handler: http.NotFoundHandler()})
	var failed *net.OpError
	g.Expect(errors.As(s.Start(t.Context()), &failed)).To(BeTrue())
	g.Expect(s.Addr()).To(BeEmpty())
}

func TestServerSpeaksTLS(t *testing.T) {
	g := NewWithT(t)
	lender := httptest.NewTLSServer(nil) // for its certificate
	defer lender.Close()
	s := start(t, ServerOptions{
		Handler: newHandler(newGate()),
		TLS:     &tls.Config{Certificates: lender.TLS.Certificates, MinVersion: tls.VersionTLS12},
	})
	s.client, s.url = lender.Client(), "https://"+s.Addr()
	status, _, err := s.get(pathReady)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(Equal(http.StatusOK))
	s.stop()
	s.lameDuck <- time.Time{}
	g.Eventually(s.ended).Should(Receive(BeNil()))
}

func TestServerReportsUnusableTLS(t *testing.T) {
	g := NewWithT(t)
	s := NewServer(ServerOptions{Address: "127.0.0.1:0", Handler: http.NotFoundHandler(), TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	g.Expect(s.Start(t.Context())).NotTo(Succeed())
}

func TestMetricsServer(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "weir_up 1") })
	handler := NewMetricsServer(ServerOptions{Handler: metrics}).options.Handler
	for name, tc := range map[string]struct {
		method, path string
		status       int
	}{
		"read":  {http.MethodGet, "/metrics", 200},
		"write": {http.MethodPost, "/metrics", 405},
		"else":  {http.MethodGet, "/", 404},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(send(handler, tc.method, tc.path, "").Code).To(Equal(tc.status))
		})
	}
}

// The bounds of what a slow or verbose client can hold are those of the server
// that runs.
func TestServerBounds(t *testing.T) {
	g := NewWithT(t)
	server := NewServer(ServerOptions{Handler: http.NotFoundHandler()}).server()
	g.Expect([]time.Duration{server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout}).
		To(Equal([]time.Duration{5 * time.Second, 10 * time.Second, 10 * time.Second, 2 * time.Minute}))
	g.Expect(server.MaxHeaderBytes).To(Equal(64 << 10))

	s := start(t, ServerOptions{Handler: newHandler(newGate())})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+pathHealth, nil)
	g.Expect(err).NotTo(HaveOccurred())
	for size, status := range map[int]int{60 << 10: 200, 128 << 10: 431} {
		r.Header.Set("X-Long", strings.Repeat("x", size))
		answer, err := s.client.Do(r)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Body.Close()).To(Succeed())
		g.Expect(answer.StatusCode).To(Equal(status))
	}
	s.stop()
	s.lameDuck <- time.Time{}
	g.Eventually(s.ended, "5s").Should(Receive(BeNil()))
}
