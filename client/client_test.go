// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answering returns a server with a fixed answer, and the number of requests it received.
func answering(t *testing.T, status int, body string, header ...string) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// newClient returns a client with a long timeout, unless edited.
func newClient(t *testing.T, url string, mode FailMode, edits ...func(*Options)) *Client {
	t.Helper()
	o := Options{URL: url, FailMode: mode, Timeout: 30 * time.Second}
	for _, edit := range edits {
		edit(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	for _, tc := range []struct {
		options Options
		want    string
	}{
		{Options{FailMode: Open}, `URL "": must be the base URL`},
		{Options{URL: "weir:8080", FailMode: Open}, `URL "weir:8080": must be the base URL`},
		{Options{URL: "ftp://weir", FailMode: Open}, "must be the base URL"},
		{Options{URL: "http://weir"}, "FailMode: choose Open or Closed"},
		{Options{URL: "http://weir", FailMode: 3}, "FailMode: choose Open or Closed"},
		{Options{URL: "http://weir", FailMode: Open, Timeout: -1}, "Timeout -1ns: must not be negative"},
		{Options{URL: "http://weir", FailMode: Open, ResendFor: -1}, "ResendFor -1ns: must not be negative"},
		{Options{URL: "http://weir", FailMode: Open, ResendFor: 10*time.Minute + 1}, "ResendFor 10m0.000000001s: must be at most 10m0s"},
	} {
		if _, err := New(tc.options); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%+v): %v, want %q", tc.options, err, tc.want)
		}
	}
}

// Each answer that is not a decision leaves the decision to the fail mode, after one request.
func TestFailModeDecidesWithoutADecision(t *testing.T) {
	decision := `{"allowed":true,"reason":"Allowed","limits":[],"revision":1}`
	for name, tc := range map[string]struct {
		status int
		body   string
		want   string // in the error
	}{
		"garbage":                   {200, "<html>", "status 200"},
		"empty":                     {200, "", "status 200"},
		"no decision":               {200, `{"ok":true}`, "status 200"},
		"a denial with status 200":  {200, `{"allowed":false,"reason":"LimitExceeded","status":429}`, "status 200"},
		"allowed with status 429":   {429, decision, "status 429"},
		"a denial by another proxy": {429, "slow down", "status 429"},
		"503 of a proxy":            {503, "<html>no upstream</html>", "status 503"},
		"not ready":                 {503, `{"status":503,"code":"NotReady","detail":"no plans"}`, "status 503: NotReady: no plans"},
		"an unknown policy":         {404, `{"status":404,"code":"UnknownPolicy","field":"policies[0]","detail":"unknown"}`, "UnknownPolicy: policies[0]: unknown"},
		"400 of a proxy":            {400, "bad", "status 400"},
		"500":                       {500, `{"status":500,"code":"InternalError","detail":"x"}`, "InternalError"},
		"a redirect":                {307, "", "status 307"},
		"too long":                  {200, `{"allowed":true,"reason":"` + strings.Repeat("x", maxAnswer) + `"}`, "status 200"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []FailMode{Open, Closed} {
				url, requests := answering(t, tc.status, tc.body, "Location", "/elsewhere")
				d, err := newClient(t, url, mode).Check(t.Context(), Check{Policies: []string{"shop/p"}})
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				var answer *Error
				if !errors.As(err, &answer) || answer.Status != tc.status {
					t.Errorf("no *Error with status %d: %v", tc.status, err)
				}
				if d.Allowed != (mode == Open) || d.Reason != ReasonNoDecision {
					t.Errorf("%v: %+v", mode, d)
				}
				if mode == Closed && d.Status != http.StatusServiceUnavailable {
					t.Errorf("status %d", d.Status)
				}
				if n := requests.Load(); n != 1 {
					t.Errorf("%d requests", n)
				}
			}
		})
	}
}

// What clients send cannot lift their limits, whatever the fail mode is.
func TestInvalidChecksAreDenied(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge} {
		url, _ := answering(t, status, `{"code":"InvalidRequest","detail":"x"}`)
		d, err := newClient(t, url, Open).Check(t.Context(), Check{})
		if err == nil || d.Allowed || d.Status != http.StatusBadRequest {
			t.Errorf("%d: %+v, %v", status, d, err)
		}
	}
}

func TestFailModeDecidesWithoutAServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	for name, address := range map[string]string{"refused": server.URL, "unknown host": "http://weir.invalid"} {
		for _, mode := range []FailMode{Open, Closed} {
			d, err := newClient(t, address, mode).Check(t.Context(), Check{})
			if err == nil || d.Allowed != (mode == Open) {
				t.Errorf("%s, %v: %+v, %v", name, mode, d, err)
			}
		}
	}
}

// hanging returns a server that answers nothing until the test ends, and counts requests.
func hanging(t *testing.T, begin func(http.ResponseWriter)) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		begin(w)
		<-ended
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	return server.URL, requests
}

// A server that hangs, before its answer or in it, costs the timeout and one request.
func TestTimeout(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"silent": func(http.ResponseWriter) {},
		"slow": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"allowed":`))
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := hanging(t, begin)
			c := newClient(t, url, Open, func(o *Options) { o.Timeout = 50 * time.Millisecond })
			start := time.Now()
			d, err := c.Check(t.Context(), Check{})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 50ms") {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took < 50*time.Millisecond || took > 30*time.Second {
				t.Errorf("took %v", took)
			}
			if !d.Allowed || requests.Load() != 1 {
				t.Errorf("%+v after %d requests", d, requests.Load())
			}
		})
	}
}

// A client that disconnects ends the context of its request. That must not lift its limits.
func TestEndedContextIsDenied(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	url, _ := hanging(t, func(http.ResponseWriter) { end() }) // once the request has arrived
	d, err := newClient(t, url, Open).Check(ctx, Check{})
	if !errors.Is(err, context.Canceled) || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	d, err = newClient(t, url, Open).Check(short, Check{})
	if !errors.Is(err, context.DeadlineExceeded) || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestDecisionIsDecoded(t *testing.T) {
	url, _ := answering(t, 429, `{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"Slow down.","code":"TooManyAttempts",
"allowed":false,"reason":"LimitExceeded","policy":"shop/p","limit":"burst","override":"gold","retryAfter":8,"revision":7,
"limits":[{"policy":"shop/p","limit":"burst","override":"gold","group":"partners","exception":"launch","allowed":false,"used":3,"threshold":4,"remaining":1,"retryAfterMs":7500,"resetAfterMs":9000,"shadow":true}]}`,
		"Retry-After", "8", "RateLimit", `"a";r=0`, "RateLimit-Policy", `"a";q=3`, "X-RateLimit-Limit", "3", "Weir-Degraded", "local", "Set-Cookie", "x")
	d, err := newClient(t, url, Open).Check(t.Context(), Check{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(Decision{
		Reason: ReasonLimitExceeded, Status: 429, Policy: "shop/p", Limit: "burst", Override: "gold", Code: "TooManyAttempts", Detail: "Slow down.",
		RetryAfter: 8 * time.Second, Revision: 7, Degraded: "local",
		Limits: []Limit{{
			Policy: "shop/p", Limit: "burst", Override: "gold", Group: "partners", Exception: "launch", Used: 3, Threshold: 4, Remaining: 1, Shadow: true,
			RetryAfter: 7500 * time.Millisecond, ResetAfter: 9 * time.Second,
		}},
		Header: http.Header{"Retry-After": {"8"}, "Ratelimit": {`"a";r=0`}, "Ratelimit-Policy": {`"a";q=3`}, "X-Ratelimit-Limit": {"3"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The check is sent as docs/http.md documents.
func TestCheckIsEncoded(t *testing.T) {
	sent := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		_ = r.Write(body)
		sent <- body.String()
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	c := newClient(t, server.URL+"/", Open)
	_, _ = c.Check(t.Context(), Check{
		Policies: []string{"shop/p"}, Key: []string{"a", "b"}, Cost: 2, Peek: true,
		Attributes: &Attributes{
			Method: "GET", Host: "h", Path: "/", Headers: map[string][]string{"X-A": {"1", "2"}}, RemoteAddress: "192.0.2.1", Principal: "p",
			Targets: []string{"Gateway/a/b"}, Domain: "d", Descriptors: []Descriptor{{Entries: []Entry{{Key: "k", Value: "v"}, {Key: "l"}}}},
		},
	})
	request := <-sent
	for _, want := range []string{
		"POST /v1/check HTTP/1.1", "Content-Type: application/json",
		`{"policies":["shop/p"],"key":["a","b"],"attributes":{"method":"GET","host":"h","path":"/","headers":{"X-A":["1","2"]},` +
			`"remoteAddress":"192.0.2.1","principal":"p","targets":["Gateway/a/b"],"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"},{"key":"l"}]}]},"cost":2,"peek":true}`,
	} {
		if !strings.Contains(request, want) {
			t.Errorf("%s\nlacks %s", request, want)
		}
	}
}

func TestMiddleware(t *testing.T) {
	denial := `{"allowed":false,"reason":"LimitExceeded","status":429,"code":"RateLimited","detail":"Slow down.","retryAfter":8,"limits":[]}`
	pass := `{"allowed":true,"reason":"Allowed","limits":[]}`
	for name, tc := range map[string]struct {
		status     int
		body       string
		mode       FailMode
		middleware Middleware
		wantStatus int
		wantBody   string
		wantRetry  string
		wantErrors int
	}{
		"allowed":     {200, pass, Closed, Middleware{}, 200, "handled", "", 0},
		"denied":      {429, denial, Open, Middleware{}, 429, `{"title":"Too Many Requests","status":429,"code":"RateLimited","detail":"Slow down.","retryAfter":8}`, "8", 0},
		"fail open":   {500, "", Open, Middleware{}, 200, "handled", "", 1},
		"fail closed": {500, "", Closed, Middleware{}, 503, `{"title":"Service Unavailable","status":503,"code":"Unavailable","detail":"The rate limiter did not answer."}`, "", 1},
		"exempt": {
			429, denial, Open, Middleware{Check: func(*http.Request) (Check, bool) { return Check{}, false }}, 200, "handled", "", 0,
		},
		"own answer": {429, denial, Open, Middleware{Denied: func(w http.ResponseWriter, _ *http.Request, d Decision) {
			http.Error(w, "wait "+d.RetryAfter.String(), http.StatusTeapot)
		}}, 418, "wait 8s\n", "8", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var header []string
			if tc.wantRetry != "" {
				header = []string{"Retry-After", tc.wantRetry}
			}
			url, _ := answering(t, tc.status, tc.body, append(header, "RateLimit", "limit")...)
			failures := 0
			tc.middleware.OnError = func(*http.Request, error) { failures++ }
			handler := newClient(t, url, tc.mode).Middleware(tc.middleware)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("handled"))
			}))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if w.Code != tc.wantStatus || w.Body.String() != tc.wantBody || w.Header().Get("Retry-After") != tc.wantRetry {
				t.Errorf("%d, %q, Retry-After %q", w.Code, w.Body, w.Header().Get("Retry-After"))
			}
			if failures != tc.wantErrors {
				t.Errorf("%d errors, want %d", failures, tc.wantErrors)
			}
			if wantLimit := tc.wantErrors == 0 && name != "exempt"; (w.Header().Get("RateLimit") == "limit") != wantLimit {
				t.Errorf("RateLimit %q", w.Header().Get("RateLimit"))
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop.example/a%2Fb?c=d", nil)
	r.Header.Set("X-Account", "bob")
	for peer, want := range map[string]string{"192.0.2.1:1234": "192.0.2.1", "[fe80::1%eth0]:80": "fe80::1", "@": ""} {
		r.RemoteAddr = peer
		a := Describe(r)
		if a.RemoteAddress != want || a.Method != http.MethodPost || a.Host != "shop.example" || a.Path != "/a%2Fb?c=d" || a.Headers["X-Account"][0] != "bob" {
			t.Errorf("%s: %+v", peer, a)
		}
	}
}

// A query that Weir would reject, because the path is too long, is replaced by one that it does not read: a client could
// otherwise choose to be answered by the FailMode.
func TestDescribeLongQuery(t *testing.T) {
	for length, want := range map[int]int{8192 - len("/a?q="): 8192, 8193 - len("/a?q="): len("/a?") + 128} {
		a := Describe(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.example/a?q="+strings.Repeat("x", length), nil))
		if len(a.Path) != want {
			t.Errorf("a query of %d bytes: a path of %d bytes, want %d", length, len(a.Path), want)
		}
	}
}
