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
	// RetryQueue keeps charges that Redis did not answer, to send them again; nil drops them.
	RetryQueue RetryQueue
	Frontend   limiter.FrontendOptions
}

// RetryQueue keeps charges until Redis answers.
type RetryQueue interface {
	// Keep takes charges that were not sent. The caller must not change them afterwards.
	Keep(charges []limiter.Commit)
}

// Service answers envoy.service.ratelimit.v3.RateLimitService.
type Service struct {
	options Options
	// info and handle are arguments for interceptors, the same for every call.
	info   *grpc.UnaryServerInfo
	handle grpc.UnaryHandler
}

// New returns the service.
func New(o Options) *Service {
	s := &Service{options: o}
	s.info = &grpc.UnaryServerInfo{Server: s, FullMethod: ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName}
	s.handle = func(ctx context.Context, message any) (any, error) {
		return s.shouldRateLimit(ctx, message.(*request))
	}
	return s
}

// Register adds the service to the server. The codec of the server must be the one of
// package grpcserver.
func (s *Service) Register(r grpc.ServiceRegistrar) { r.RegisterService(&description, s) }

// description is ratelimitv3.RateLimitService_ServiceDesc with messages that encode
// themselves.
var description = grpc.ServiceDesc{
	ServiceName: "envoy.service.ratelimit.v3.RateLimitService",
	HandlerType: (*any)(nil),
	Metadata:    "envoy/service/ratelimit/v3/rls.proto", // for server reflection
	Methods: []grpc.MethodDesc{{
		MethodName: "ShouldRateLimit",
		Handler: func(service any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			return service.(*Service).serve(ctx, decode, interceptor)
		},
	}},
}

// serve decodes the request and decides it. Interceptors must not keep the request.
func (s *Service) serve(ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	r := requests.Get().(*request)
	if err := decode(r); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return s.handle(ctx, r)
	}
	return interceptor(ctx, r, s.info, s.handle)
}

// shouldRateLimit decides one request. It returns InvalidArgument, with the field named, for
// a malformed request, Unavailable before the first plans are loaded, and the status of a
// cancelled call.
func (s *Service) shouldRateLimit(ctx context.Context, r *request) (*response, error) {
	check, err := r.toCheck()
	if err != nil {
		return nil, statusOf(err)
	}
	decision, err := s.options.Engine.Decide(ctx, check)
	if err != nil {
		return nil, statusOf(err)
	}
	if len(decision.Unsent) > 0 && s.options.RetryQueue != nil {
		s.options.RetryQueue.Keep(decision.Unsent)
	}
	response := s.responseOf(decision)
	if decision.Degraded == "" && decision.Unsent == nil { // else a call to the store may still read the check
		r.release()
	}
	return response, nil
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
