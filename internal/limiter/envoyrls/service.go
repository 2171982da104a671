// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls

import (
	"context"
	"errors"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/internal/limiter"
)

// Options configure a Service.
type Options struct {
	// Engine is required.
	Engine limiter.Decider
	Door   limiter.DoorOptions
}

// Service answers envoy.service.ratelimit.v3.RateLimitService.
type Service struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	options Options
}

// New returns the service.
func New(o Options) *Service { return &Service{options: o} }

// Register adds the service to the server.
func (s *Service) Register(r grpc.ServiceRegistrar) { ratelimitv3.RegisterRateLimitServiceServer(r, s) }

// ShouldRateLimit decides one request. It returns InvalidArgument, with the field named, for
// a malformed request, Unavailable before the first plans are loaded, and the status of a
// cancelled call.
func (s *Service) ShouldRateLimit(ctx context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	check, err := checkOf(r)
	if err != nil {
		return nil, statusOf(err)
	}
	decision, err := s.options.Engine.Decide(ctx, check)
	if err != nil {
		return nil, statusOf(err)
	}
	return s.response(decision), nil
}

// statusOf returns the gRPC status of the error.
func statusOf(err error) error {
	if invalid, ok := errors.AsType[*limiter.FieldError](err); ok {
		return status.Error(codes.InvalidArgument, invalid.Error())
	}
	if errors.Is(err, limiter.ErrNotReady) {
		return status.Error(codes.Unavailable, err.Error())
	}
	return status.FromContextError(err).Err()
}
