// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"
)

// exchange is the answer to one request. A status of 0 closes the connection.
type exchange struct {
	status int
	body   string
}

// scripted is a server that gives the answers in turn, the last one again and again.
type scripted struct {
	answers []exchange

	mu     sync.Mutex
	paths  []string
	bodies []map[string]any
}

// allPaths and allBodies return what the server has received.
func (s *scripted) allPaths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.paths)
}

func (s *scripted) allBodies() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

func (s *scripted) start(t *testing.T, edits ...func(*Options)) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &body); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.paths, s.bodies = append(s.paths, r.URL.Path), append(s.bodies, body)
		answer := s.answers[min(len(s.paths), len(s.answers))-1]
		s.mu.Unlock()
		if answer.status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.body)
	}))
	t.Cleanup(server.Close)
	return newClient(t, server.URL, Open, edits...)
}

const (
	reserved    = `{"allowed":true,"reason":"Allowed","limits":[{"policy":"a/b","used":9,"held":7}],"revision":1,"reservation":"abc"}`
	unavailable = `{"status":503,"code":"StoreUnavailable","detail":"Redis is away"}`
)

func TestReserveSendsTheEstimate(t *testing.T) {
	for name, tc := range map[string]struct {
		reserve Reserve
		want    map[string]any
	}{
		"an estimate": {
			Reserve{Check: Check{Policies: []string{"a/b"}, Key: []string{"alice"}, Cost: 7}, TTL: 90 * time.Second, ID: "r-1"},
			map[string]any{"policies": []any{"a/b"}, "key": []any{"alice"}, "cost": 7.0, "ttl": "1m30s", "id": "r-1"},
		},
		"by policy": {
			Reserve{Check: Check{Policies: []string{"a/b", "a/c"}}, Costs: map[string]int64{"a/b": 7}},
			map[string]any{"policies": []any{"a/b", "a/c"}, "costs": map[string]any{"a/b": 7.0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{answers: []exchange{{200, reserved}}}
			r, err := s.start(t).Reserve(t.Context(), tc.reserve)
			if err != nil || !r.Decision.Allowed || r.Text() != "abc" || r.Decision.Limits[0].Held != 7 {
				t.Errorf("%+v, %v", r, err)
			}
			if !reflect.DeepEqual(s.allBodies(), []map[string]any{tc.want}) || s.allPaths()[0] != "/v1/reserve" {
				t.Errorf("%v: %v", s.allPaths(), s.allBodies())
			}
		})
	}
}

// Without a decision of Weir nothing is held, and there is nothing to commit.
func TestReserveWithoutADecision(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  exchange
		allowed bool
		failed  bool
	}{
		"denied":           {exchange{429, `{"allowed":false,"reason":"LimitExceeded","status":429,"retryAfter":1,"waitsFor":"Reservations"}`}, false, false},
		"no connection":    {exchange{0, ""}, true, true},
		"no reservation":   {exchange{200, `{"allowed":true,"reason":"Allowed"}`}, true, true},
		"invalid":          {exchange{400, `{"code":"InvalidRequest","field":"ttl"}`}, false, true},
		"another estimate": {exchange{409, `{"code":"ReservationDiffers","field":"id"}`}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{answers: []exchange{tc.answer}}
			r, err := s.start(t).Reserve(t.Context(), Reserve{Check: Check{Policies: []string{"a/b"}}})
			if r.Decision.Allowed != tc.allowed || (err != nil) != tc.failed || r.Text() != "" {
				t.Errorf("%+v, %v", r, err)
			}
			if !tc.failed && (r.Decision.WaitsFor != "Reservations" || r.Decision.RetryAfter != time.Second) {
				t.Errorf("%+v", r.Decision)
			}
			if _, err := r.Commit(t.Context(), 5); err != nil {
				t.Error(err)
			}
			if open, err := r.Renew(t.Context(), 0); open || err != nil {
				t.Error(open, err)
			}
			if len(s.allPaths()) != 1 {
				t.Errorf("requests: %v", s.allPaths())
			}
		})
	}
}

// Each call is sent again, unchanged, until Weir answers.
func TestCommitsRenewalsAndChargesAreSentAgain(t *testing.T) {
	committed := exchange{200, `{"committed":true,"policies":[{"policy":"a/b","committed":true,"cost":5,"estimate":7}],"revision":1}`}
	renewed := exchange{200, `{"renewed":true,"policies":[],"revision":1}`}
	charged := exchange{200, `{"charged":true,"limits":[],"revision":1}`}
	for name, tc := range map[string]struct {
		last exchange
		call func(context.Context, *Reservation) error
		path string
		body map[string]any // without a random ID
	}{
		"commit": {committed, func(ctx context.Context, r *Reservation) error {
			c, err := r.Commit(ctx, 5)
			want := Committed{Committed: true, Policies: []CommittedPolicy{{Policy: "a/b", Committed: true, Cost: 5, Estimate: 7}}}
			if !reflect.DeepEqual(c, want) {
				t.Errorf("%+v", c)
			}
			return err
		}, "/v1/commit", map[string]any{"reservation": "abc", "cost": 5.0}},
		"commit by policy": {committed, func(ctx context.Context, r *Reservation) error {
			_, err := r.CommitCosts(ctx, map[string]int64{"a/b": 5})
			return err
		}, "/v1/commit", map[string]any{"reservation": "abc", "costs": map[string]any{"a/b": 5.0}}},
		"cancel": {committed, func(ctx context.Context, r *Reservation) error {
			return r.Cancel(ctx)
		}, "/v1/commit", map[string]any{"reservation": "abc", "cost": 0.0}},
		"renew": {renewed, func(ctx context.Context, r *Reservation) error {
			open, err := r.Renew(ctx, time.Minute)
			if !open {
				t.Error("not open")
			}
			return err
		}, "/v1/renew", map[string]any{"reservation": "abc", "ttl": "1m0s"}},
		"charge": {charged, func(ctx context.Context, r *Reservation) error {
			ok, err := r.client.Charge(ctx, Charge{Check: Check{Policies: []string{"a/b"}, Cost: 5}})
			if !ok {
				t.Error("not charged")
			}
			return err
		}, "/v1/charge", map[string]any{"policies": []any{"a/b"}, "cost": 5.0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{answers: []exchange{{0, ""}, {503, unavailable}, {502, "bad gateway"}, tc.last}}
			if err := tc.call(t.Context(), s.start(t).Reservation("abc")); err != nil {
				t.Fatal(err)
			}
			if len(s.allPaths()) != 4 || s.allPaths()[3] != tc.path {
				t.Errorf("requests: %v", s.allPaths())
			}
			if first, last := s.allBodies()[0], s.allBodies()[3]; !reflect.DeepEqual(first, last) {
				t.Errorf("%v was sent again as %v", first, last)
			}
			if id, _ := s.allBodies()[0]["id"].(string); (len(id) >= 26) != (name == "charge") {
				t.Errorf("id %q", id)
			}
			delete(s.allBodies()[0], "id")
			if !reflect.DeepEqual(s.allBodies()[0], tc.body) {
				t.Errorf("body %v", s.allBodies()[0])
			}
		})
	}
}

func TestOtherAnswersAreNotSentAgain(t *testing.T) {
	for status, body := range map[int]string{
		400: `{"code":"InvalidRequest","field":"reservation"}`, 404: `{"code":"NotFound"}`, 500: `{"code":"InternalError"}`, 200: "<html>",
	} {
		s := &scripted{answers: []exchange{{status, body}}}
		_, err := s.start(t).Reservation("abc").Commit(t.Context(), 5)
		var answer *Error
		if !errors.As(err, &answer) || answer.Status != status || len(s.allPaths()) != 1 {
			t.Errorf("%d: %v, requests %v", status, err, s.allPaths())
		}
	}
	s := &scripted{answers: []exchange{{410, `{"code":"ReservationEnded","field":"reservation"}`}}}
	if open, err := s.start(t).Reservation("abc").Renew(t.Context(), 0); open || err != nil || len(s.allPaths()) != 1 {
		t.Errorf("open %v, %v, requests %v", open, err, s.allPaths())
	}
}

func TestSendingEnds(t *testing.T) {
	away := []exchange{{503, unavailable}}
	s := &scripted{answers: away}
	_, err := s.start(t, func(o *Options) { o.ResendFor = 200 * time.Millisecond }).Reservation("abc").Commit(t.Context(), 5)
	var answer *Error
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &answer) || answer.Code != "StoreUnavailable" || len(s.allPaths()) < 2 {
		t.Errorf("%v after %d requests", err, len(s.allPaths()))
	}
	s = &scripted{answers: away}
	c := s.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if _, err := c.Charge(ctx, Charge{Check: Check{Policies: []string{"a/b"}}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
