// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"
)

// awaitBodies returns what the server has received once it has received n requests.
func (s *scripted) awaitBodies(t *testing.T, n int) []map[string]any {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); ; {
		select {
		case <-tick.C:
			if bodies := s.allBodies(); len(bodies) >= n {
				return bodies
			}
		case <-deadline:
			t.Fatalf("%d requests, want %d", len(s.allBodies()), n)
		}
	}
}

// The outcome is committed however the request ends.
func TestMiddlewareCommitsTheOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		code    float64
		panics  bool
	}{
		"a failure": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, 401, false},
		"a success": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "welcome") }, 200, false},
		"no body":   {func(http.ResponseWriter, *http.Request) {}, 200, false},
		"after early hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusForbidden)
		}, 403, false},
		"flushed": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.WriteHeader(http.StatusUnauthorized)
		}, 200, false},
		"a panic":                 {func(http.ResponseWriter, *http.Request) { panic("defect") }, 500, true},
		"a panic after a failure": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized); panic("defect") }, 401, true},
		"a hang-up": {func(_ http.ResponseWriter, r *http.Request) {
			r.Context().Value(hangUp{}).(context.CancelFunc)()
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{answers: []exchange{{200, reserved}, {200, `{"committed":true}`}}}
			limit := s.start(t).Middleware(Middleware{CountOutcome: true, Check: func(*http.Request) (Check, bool) {
				return Check{Policies: []string{"a/b"}, Key: []string{"alice"}}, true
			}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := httptest.NewRequestWithContext(context.WithValue(ctx, hangUp{}, cancel), http.MethodPost, "/login", nil)
			func() {
				defer func() {
					if (recover() != nil) != tc.panics {
						t.Errorf("want a panic: %v", tc.panics)
					}
				}()
				limit(tc.handler).ServeHTTP(httptest.NewRecorder(), r)
			}()
			want := []map[string]any{
				{"policies": []any{"a/b"}, "key": []any{"alice"}},
				{"reservation": "abc", "response": map[string]any{"code": tc.code}},
			}
			if got := s.awaitBodies(t, 2); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

type hangUp struct{}

// A denied request has no outcome.
func TestMiddlewareCommitsNothingForADenial(t *testing.T) {
	s := &scripted{answers: []exchange{{429, `{"allowed":false,"reason":"Blocked","status":429,"retryAfter":60}`}}}
	limit := s.start(t).Middleware(Middleware{CountOutcome: true})
	w := httptest.NewRecorder()
	limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was called") })).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", nil))
	if w.Code != 429 || len(s.allPaths()) != 1 {
		t.Errorf("%d, %v", w.Code, s.allPaths())
	}
}
