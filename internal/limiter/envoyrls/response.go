// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls

import (
	"bytes"
	"net/http"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/answer"
)

// response returns the decision as a response. The body of a denial names status 429
// whatever the reason, because Envoy sends that status for every denial.
func (s *Service) response(d *limiter.Decision) *ratelimitv3.RateLimitResponse {
	a := answer.New(d, answer.Options{
		BodyOnDenialOnly: true, DenyStatus: http.StatusTooManyRequests, LegacyHeaders: s.options.Door.LegacyHeaders,
	})
	defer a.Release()
	r := &ratelimitv3.RateLimitResponse{
		OverallCode:          codeOf(d.Allowed),
		Statuses:             make([]*ratelimitv3.RateLimitResponse_DescriptorStatus, len(d.Descriptors)),
		ResponseHeadersToAdd: headersOf(a.Headers),
		RawBody:              bytes.Clone(a.Body),
	}
	for i := range d.Descriptors {
		r.Statuses[i] = statusOfDescriptor(&d.Descriptors[i])
	}
	return r
}

func codeOf(allowed bool) ratelimitv3.RateLimitResponse_Code {
	if allowed {
		return ratelimitv3.RateLimitResponse_OK
	}
	return ratelimitv3.RateLimitResponse_OVER_LIMIT
}

func headersOf(headers []answer.Header) []*corev3.HeaderValue {
	values := make([]*corev3.HeaderValue, len(headers))
	for i, h := range headers {
		values[i] = &corev3.HeaderValue{Key: h.Name, Value: h.Value}
	}
	return values
}

func statusOfDescriptor(state *limiter.DescriptorState) *ratelimitv3.RateLimitResponse_DescriptorStatus {
	s := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: codeOf(state.Allowed)}
	l := state.Tightest
	if l == nil {
		return s
	}
	s.CurrentLimit = currentLimit(l)
	s.LimitRemaining = uint32(answer.Available(l)) //nolint:gosec // 0..plan.MaxThreshold
	reset := l.ResetAfter
	if state.RetryAfter > 0 {
		reset = state.RetryAfter
	}
	s.DurationUntilReset = durationpb.New(time.Duration(answer.RoundUp(reset, time.Second)) * time.Second)
	return s
}

// units maps windows to the units of Envoy.
var units = map[time.Duration]ratelimitv3.RateLimitResponse_RateLimit_Unit{
	time.Second:        ratelimitv3.RateLimitResponse_RateLimit_SECOND,
	time.Minute:        ratelimitv3.RateLimitResponse_RateLimit_MINUTE,
	time.Hour:          ratelimitv3.RateLimitResponse_RateLimit_HOUR,
	24 * time.Hour:     ratelimitv3.RateLimitResponse_RateLimit_DAY,
	7 * 24 * time.Hour: ratelimitv3.RateLimitResponse_RateLimit_WEEK,
}

// currentLimit returns the limit under the name it has in the RateLimit headers. The unit of
// a window that is not in units is UNKNOWN.
func currentLimit(l *limiter.LimitState) *ratelimitv3.RateLimitResponse_RateLimit {
	return &ratelimitv3.RateLimitResponse_RateLimit{
		Name:            string(answer.AppendItemName(nil, l)),
		RequestsPerUnit: uint32(l.Quota), //nolint:gosec // 0..plan.MaxThreshold
		Unit:            units[l.Window],
	}
}
