// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

func TestMain(m *testing.M) {
	const sender = "github.com/weir-dev/weir/internal/limiter/store/redisstore.sendQueues" // it lasts as long as the process
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(sender))
}

// fakeEngine decides with decide, or allows, and keeps a copy of the last check.
type fakeEngine struct {
	limiter.Reserver

	decide   func(ctx context.Context, check *limiter.Check) (*limiter.Decision, error)
	snapshot *index.Snapshot
	received *limiter.Check
}

func (e *fakeEngine) Decide(ctx context.Context, check *limiter.Check) (*limiter.Decision, error) {
	e.received = cloneCheck(check)
	if e.decide != nil {
		return e.decide(ctx, check)
	}
	return &limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed, Revision: 7}, nil
}

// cloneCheck copies the check, whose memory the next request may use.
func cloneCheck(check *limiter.Check) *limiter.Check {
	c := *check
	c.Policies, c.Key = slices.Clone(c.Policies), slices.Clone(c.Key)
	c.Attributes.Headers = maps.Clone(c.Attributes.Headers)
	return &c
}

func (e *fakeEngine) Snapshot() *index.Snapshot { return e.snapshot }

func answering(d limiter.Decision) *fakeEngine {
	return &fakeEngine{decide: func(context.Context, *limiter.Check) (*limiter.Decision, error) { return &d, nil }}
}

func failing(err error) *fakeEngine {
	return &fakeEngine{decide: func(context.Context, *limiter.Check) (*limiter.Decision, error) { return nil, err }}
}

func newHandler(e Engine) http.Handler {
	return New(Options{Engine: e, Logger: slog.New(slog.DiscardHandler)})
}

// send serves one request and returns the answer.
func send(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

func sendCheck(e Engine, body string) *httptest.ResponseRecorder {
	return send(newHandler(e), http.MethodPost, pathCheck, body)
}

// decodeProblem returns the problem document and expects the members that all have.
func decodeProblem(g *WithT, w *httptest.ResponseRecorder) answer.Problem {
	var p answer.Problem
	g.ExpectWithOffset(1, w.Header().Get(answer.HeaderContentType)).To(Equal(answer.TypeProblem))
	g.ExpectWithOffset(1, json.Unmarshal(w.Body.Bytes(), &p)).To(Succeed())
	g.ExpectWithOffset(1, p.Type).To(Equal("about:blank"))
	g.ExpectWithOffset(1, p.Status).To(Equal(w.Code))
	g.ExpectWithOffset(1, p.Title).NotTo(BeEmpty())
	g.ExpectWithOffset(1, p.Detail).NotTo(BeEmpty())
	return p
}

func TestRoutes(t *testing.T) {
	loaded := index.NewSnapshot(1, nil)
	tests := map[string]struct {
		method, path string
		snapshot     *index.Snapshot
		status       int
		allow        string
	}{
		"check by GET":        {method: "GET", path: "/v1/check", status: 405, allow: "POST"},
		"check by BREW":       {method: "BREW", path: "/v1/check", status: 405, allow: "POST"},
		"policies by DELETE":  {method: "DELETE", path: "/v1/policies", status: 405, allow: "GET, HEAD"},
		"policies by HEAD":    {method: "HEAD", path: "/v1/policies", snapshot: loaded, status: 200},
		"policies, not ready": {method: "GET", path: "/v1/policies", status: 503},
		"health":              {method: "GET", path: "/healthz", status: 200},
		"ready":               {method: "GET", path: "/readyz", snapshot: loaded, status: 200},
		"not ready":           {method: "GET", path: "/readyz", status: 503},
		"root":                {method: "GET", path: "/", status: 404},
		"below check":         {method: "POST", path: "/v1/check/", status: 404},
		"unclean path":        {method: "POST", path: "/v1//check", status: 404},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := send(newHandler(&fakeEngine{snapshot: tc.snapshot}), tc.method, tc.path, "")
			g.Expect(w.Code).To(Equal(tc.status))
			g.Expect(w.Header().Get(headerAllow)).To(Equal(tc.allow))
			if tc.status == 404 || tc.status == 405 {
				g.Expect(decodeProblem(g, w).Code).NotTo(BeEmpty())
			}
		})
	}
}

func TestHealthReportsItsError(t *testing.T) {
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}, Healthy: func() error { return context.Canceled }})
	w := send(h, http.MethodGet, pathHealth, "")
	g.Expect(w.Code).To(Equal(503))
	g.Expect(w.Body.String()).To(Equal(context.Canceled.Error()))
}

func TestHealthAnswersOK(t *testing.T) {
	w := send(newHandler(&fakeEngine{}), http.MethodGet, pathHealth, "")
	NewWithT(t).Expect(w.Body.String()).To(Equal("ok"))
}

func TestReadinessReportsMissingPlans(t *testing.T) {
	w := send(newHandler(&fakeEngine{}), http.MethodGet, pathReady, "")
	NewWithT(t).Expect(w.Body.String()).To(Equal(limiter.ErrNotReady.Error()))
}

func TestPanicEndsOneRequest(t *testing.T) {
	g := NewWithT(t)
	engine := &fakeEngine{}
	engine.decide = func(_ context.Context, check *limiter.Check) (*limiter.Decision, error) {
		if check.Cost == 2 {
			panic("unexpected")
		}
		return &limiter.Decision{Allowed: true}, nil
	}
	var log strings.Builder
	server := httptest.NewServer(New(Options{Engine: engine, Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	defer server.Close()
	for _, step := range []struct {
		body   string
		status int
		reused bool
	}{
		{`{"policies":["a/b"],"cost":2}`, 500, false},
		{`{"policies":["a/b"]}`, 200, true},
	} {
		var reused bool
		trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace),
			http.MethodPost, server.URL+pathCheck, strings.NewReader(step.body))
		g.Expect(err).NotTo(HaveOccurred())
		answer, err := server.Client().Do(r)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = io.Copy(io.Discard, answer.Body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Body.Close()).To(Succeed())
		g.Expect(answer.StatusCode).To(Equal(step.status))
		g.Expect(reused).To(Equal(step.reused), "the connection survives the panic")
	}
	g.Expect(log.String()).To(And(ContainSubstring("unexpected"), ContainSubstring("handler_test.go")))
}

func TestAbortHandlerIsNotRecovered(t *testing.T) {
	g := NewWithT(t)
	engine := &fakeEngine{decide: func(context.Context, *limiter.Check) (*limiter.Decision, error) {
		panic(http.ErrAbortHandler)
	}}
	g.Expect(func() { sendCheck(engine, `{"policies":["a/b"]}`) }).To(PanicWith(http.ErrAbortHandler))
}

func TestOnlyReadinessFailsWhileDraining(t *testing.T) {
	g := NewWithT(t)
	handler := New(Options{Engine: &fakeEngine{snapshot: index.NewSnapshot(1, nil)}})
	g.Expect(send(handler, http.MethodGet, pathReady, "").Code).To(Equal(http.StatusOK))
	handler.Drain()
	w := send(handler, http.MethodGet, pathReady, "")
	g.Expect(w.Code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(w.Body.String()).To(ContainSubstring("draining"))
	g.Expect(send(handler, http.MethodGet, pathPolicies, "").Code).To(Equal(http.StatusOK), "a draining server still serves")
	g.Expect(send(handler, http.MethodGet, pathHealth, "").Code).To(Equal(http.StatusOK))
}
