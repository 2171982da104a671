// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package weirgrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/client"
)

// Options configure a Limiter. Conn, Domain and FailMode are required.
type Options struct {
	// Conn is the connection to the gRPC port of Weir. Create it with grpc.WithDisableRetry.
	Conn grpc.ClientConnInterface
	// Domain is compared with matches[].domain of the policies.
	Domain string
	// FailMode decides when Weir does not.
	FailMode client.FailMode
	// Timeout bounds a check; 0 is client.DefaultTimeout.
	Timeout time.Duration
}

// Limiter asks Weir over gRPC. It is safe for concurrent use.
type Limiter struct {
	options Options
	service ratelimitv3.RateLimitServiceClient
}

// New returns a limiter. Its error names the invalid option.
func New(o Options) (*Limiter, error) {
	switch {
	case o.Conn == nil:
		return nil, errors.New("weir: Conn: is required")
	case o.Domain == "":
		return nil, errors.New("weir: Domain: is required")
	case !o.FailMode.Valid():
		return nil, errors.New("weir: FailMode: choose Open or Closed")
	case o.Timeout < 0:
		return nil, fmt.Errorf("weir: Timeout %v: must not be negative", o.Timeout)
	case o.Timeout == 0:
		o.Timeout = client.DefaultTimeout
	}
	return &Limiter{options: o, service: ratelimitv3.NewRateLimitServiceClient(o.Conn)}, nil
}

// Check asks Weir to decide and to spend the cost; 0 is 1. It sends one call. Every policy that
// matches one of the descriptors, 1 to 64, applies.
//
// Errors, and the decisions that go with them, are as from client.Client.Check: the FailMode
// decides, but a check that Weir rejects as invalid, and one whose ctx ended, are denied. An
// allowed decision has no Limits, and no Reason but ReasonAllowed: the protocol has none.
func (l *Limiter) Check(ctx context.Context, cost uint32, descriptors ...client.Descriptor) (client.Decision, error) {
	bounded, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	answer, err := l.service.ShouldRateLimit(bounded, l.request(cost, descriptors))
	var d client.Decision
	if err == nil {
		d, err = decode(answer)
	}
	switch {
	case err == nil:
		return d, nil
	case ctx.Err() != nil:
		return client.Closed.Without(), ctx.Err()
	case status.Code(err) == codes.InvalidArgument, status.Code(err) == codes.ResourceExhausted: // too large
		return client.Invalid(), fmt.Errorf("weir: %w", err)
	}
	return l.options.FailMode.Without(), fmt.Errorf("weir: %w", err)
}

// request returns the request. Text that is not UTF-8, which clients may have chosen, cannot be
// sent.
func (l *Limiter) request(cost uint32, descriptors []client.Descriptor) *ratelimitv3.RateLimitRequest {
	request := &ratelimitv3.RateLimitRequest{Domain: l.options.Domain, HitsAddend: cost}
	for _, d := range descriptors {
		descriptor := &commonv3.RateLimitDescriptor{}
		for _, e := range d.Entries {
			descriptor.Entries = append(descriptor.Entries, &commonv3.RateLimitDescriptor_Entry{
				Key: e.Key, Value: strings.ToValidUTF8(e.Value, "?"),
			})
		}
		request.Descriptors = append(request.Descriptors, descriptor)
	}
	return request
}

// decode returns the decision of an answer. The body of a denial is as from POST /v1/check.
func decode(answer *ratelimitv3.RateLimitResponse) (client.Decision, error) {
	sent := http.Header{}
	for _, h := range answer.GetResponseHeadersToAdd() {
		sent.Add(h.GetKey(), h.GetValue())
	}
	d := client.Decision{Allowed: true, Reason: client.ReasonAllowed}
	switch answer.GetOverallCode() {
	case ratelimitv3.RateLimitResponse_OK:
	case ratelimitv3.RateLimitResponse_OVER_LIMIT:
		if err := json.Unmarshal(answer.GetRawBody(), &d); err != nil {
			return d, fmt.Errorf("the denial has no problem document: %w", err)
		}
		if d.Allowed {
			return d, errors.New("the response code denies, but the problem document allows")
		}
	default:
		return d, fmt.Errorf("unknown code %v", answer.GetOverallCode())
	}
	d.Degraded = sent.Get("Weir-Degraded")
	d.Header = http.Header{}
	client.Decision{Header: sent}.SetHeaders(d.Header)
	return d, nil
}
