// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package weirgrpc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/client"
)

// fakeConn answers calls with a function.
type fakeConn struct {
	grpc.ClientConnInterface
	calls  int
	answer func(ctx context.Context, request *ratelimitv3.RateLimitRequest, answer *ratelimitv3.RateLimitResponse) error
}

// Invoke implements grpc.ClientConnInterface.
func (c *fakeConn) Invoke(ctx context.Context, _ string, request, answer any, _ ...grpc.CallOption) error {
	c.calls++
	return c.answer(ctx, request.(*ratelimitv3.RateLimitRequest), answer.(*ratelimitv3.RateLimitResponse))
}

func newLimiter(t *testing.T, conn *fakeConn, mode client.FailMode) *Limiter {
	t.Helper()
	l, err := New(Options{Conn: conn, Domain: "shop", FailMode: mode, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	for _, tc := range []struct {
		options Options
		want    string
	}{
		{Options{Domain: "d", FailMode: client.Open}, "Conn: is required"},
		{Options{Conn: &fakeConn{}, FailMode: client.Open}, "Domain: is required"},
		{Options{Conn: &fakeConn{}, Domain: "d"}, "FailMode: choose Open or Closed"},
		{Options{Conn: &fakeConn{}, Domain: "d", FailMode: client.Open, Timeout: -1}, "Timeout -1ns: must not be negative"},
	} {
		if _, err := New(tc.options); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%+v): %v, want %q", tc.options, err, tc.want)
		}
	}
}

// The fail mode decides without a decision; clients cannot cause it to.
func TestFailures(t *testing.T) {
	denies := func(body string) func(context.Context, *ratelimitv3.RateLimitRequest, *ratelimitv3.RateLimitResponse) error {
		return func(_ context.Context, _ *ratelimitv3.RateLimitRequest, answer *ratelimitv3.RateLimitResponse) error {
			answer.OverallCode, answer.RawBody = ratelimitv3.RateLimitResponse_OVER_LIMIT, []byte(body)
			return nil
		}
	}
	fails := func(code codes.Code) func(context.Context, *ratelimitv3.RateLimitRequest, *ratelimitv3.RateLimitResponse) error {
		return func(context.Context, *ratelimitv3.RateLimitRequest, *ratelimitv3.RateLimitResponse) error {
			return status.Error(code, "x")
		}
	}
	for name, tc := range map[string]struct {
		answer  func(context.Context, *ratelimitv3.RateLimitRequest, *ratelimitv3.RateLimitResponse) error
		invalid bool
	}{
		"not ready":            {fails(codes.Unavailable), false},
		"invalid":              {fails(codes.InvalidArgument), true},
		"too large":            {fails(codes.ResourceExhausted), true},
		"garbage":              {denies("<html>"), false},
		"no decision":          {denies(`{"x":1}`), false},
		"a denial that allows": {denies(`{"allowed":true,"reason":"Allowed"}`), false},
		"no code":              {func(context.Context, *ratelimitv3.RateLimitRequest, *ratelimitv3.RateLimitResponse) error { return nil }, false},
		"hanging": {func(ctx context.Context, _ *ratelimitv3.RateLimitRequest, _ *ratelimitv3.RateLimitResponse) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []client.FailMode{client.Open, client.Closed} {
				conn := &fakeConn{answer: tc.answer}
				d, err := newLimiter(t, conn, mode).Check(t.Context(), 0)
				if err == nil || d.Allowed != (mode == client.Open && !tc.invalid) || d.Reason != client.ReasonNoDecision || conn.calls != 1 {
					t.Errorf("%v: %+v, %v, %d calls", mode, d, err, conn.calls)
				}
			}
		})
	}
}

// A caller that disconnects must not lift its limits.
func TestEndedContextIsDenied(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	conn := &fakeConn{answer: func(context.Context, *ratelimitv3.RateLimitRequest, *ratelimitv3.RateLimitResponse) error {
		cancel()
		return status.FromContextError(ctx.Err()).Err()
	}}
	d, err := newLimiter(t, conn, client.Open).Check(ctx, 0)
	if !errors.Is(err, context.Canceled) || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
}

// Values that clients choose always reach Weir.
func TestRequest(t *testing.T) {
	conn := &fakeConn{answer: func(_ context.Context, r *ratelimitv3.RateLimitRequest, answer *ratelimitv3.RateLimitResponse) error {
		entry := r.GetDescriptors()[0].GetEntries()[0]
		if r.GetDomain() != "shop" || r.GetHitsAddend() != 3 || entry.GetKey() != "user" || !utf8.ValidString(entry.GetValue()) {
			t.Errorf("%v", r)
		}
		answer.OverallCode = ratelimitv3.RateLimitResponse_OK
		answer.ResponseHeadersToAdd = []*corev3.HeaderValue{{Key: "ratelimit", Value: "x"}, {Key: "Weir-Degraded", Value: "local"}}
		return nil
	}}
	d, err := newLimiter(t, conn, client.Closed).Check(t.Context(), 3, client.Descriptor{Entries: []client.Entry{{Key: "user", Value: "\xff"}}})
	if err != nil || !d.Allowed || d.Header.Get("RateLimit") != "x" || d.Degraded != "local" {
		t.Errorf("%+v, %v", d, err)
	}
}

// The outcome of a call is committed by the reservation that it began with, also after a panic.
func TestOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome func() error
		code    string
		panics  bool
	}{
		"a failure": {func() error { return status.Error(codes.Unauthenticated, "wrong password") }, "401", false},
		"a success": {func() error { return nil }, "200", false},
		"a hang-up": {func() error { return context.Canceled }, "499", false},
		"a defect":  {func() error { return errors.New("defect") }, "500", false},
		"a panic":   {func() error { panic("defect") }, "500", true},
	} {
		t.Run(name, func(t *testing.T) {
			requests := make(chan []*commonv3.RateLimitDescriptor, 2)
			conn := &fakeConn{answer: func(_ context.Context, r *ratelimitv3.RateLimitRequest, answer *ratelimitv3.RateLimitResponse) error {
				requests <- r.GetDescriptors()
				answer.OverallCode = ratelimitv3.RateLimitResponse_OK
				return nil
			}}
			limit := Interceptor{
				Limiter: newLimiter(t, conn, client.Open), CountOutcome: true,
				Describe: func(context.Context, string) []client.Descriptor {
					return []client.Descriptor{{Entries: []client.Entry{{Key: "user", Value: "alice"}}}}
				},
			}
			func() {
				defer func() {
					if (recover() != nil) != tc.panics {
						t.Errorf("want a panic: %v", tc.panics)
					}
				}()
				_ = limit.Stream(nil, silentStream{ctx: t.Context()}, &grpc.StreamServerInfo{}, func(any, grpc.ServerStream) error { return tc.outcome() })
			}()
			first, second := entriesOf(<-requests), entriesOf(<-requests)
			id := strings.TrimPrefix(first[1], "weir_reservation=")
			want := []string{"user=alice", "weir_commit=" + id, "weir_response_code=" + tc.code}
			if len(first) != 2 || len(id) < 20 || !slices.Equal(second, want) {
				t.Errorf("got %q and %q, want %q", first, second, want)
			}
		})
	}
}

func entriesOf(descriptors []*commonv3.RateLimitDescriptor) (all []string) {
	for _, e := range descriptors[0].GetEntries() {
		all = append(all, e.GetKey()+"="+e.GetValue())
	}
	return all
}

// silentStream is a stream without messages.
type silentStream struct {
	grpc.ServerStream

	ctx context.Context
}

func (s silentStream) Context() context.Context { return s.ctx }

func (silentStream) SetHeader(metadata.MD) error { return nil }

func TestStatus(t *testing.T) {
	for httpStatus, want := range map[int]codes.Code{
		400: codes.InvalidArgument, 403: codes.PermissionDenied, 429: codes.ResourceExhausted, 503: codes.Unavailable,
	} {
		s := Status(client.Decision{Status: httpStatus, Detail: "why"})
		if s.Code() != want || s.Message() != "why" || len(s.Details()) != 0 {
			t.Errorf("%d: %v", httpStatus, s)
		}
	}
	if s := Status(client.Decision{Status: 429, RetryAfter: time.Second}); len(s.Details()) != 1 {
		t.Errorf("%v", s)
	}
	if s := Status(client.Decision{Allowed: true}); s.Code() != codes.OK {
		t.Errorf("%v", s)
	}
}
