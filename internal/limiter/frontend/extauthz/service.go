// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package extauthz

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/forwarded"
	"github.com/weir-dev/weir/internal/limiter/frontend/probe"
)

// Options configure a Service.
type Options struct {
	// Engine is required.
	Engine   limiter.Decider
	Frontend limiter.FrontendOptions
	// Ignored reports principals from untrusted peers; may be nil.
	Ignored *forwarded.Ignored
	// Prober answers probes; may be nil.
	Prober *probe.Prober
}

// Service answers envoy.service.auth.v3.Authorization.
type Service struct {
	authv3.UnimplementedAuthorizationServer

	options Options
	proxies forwarded.Proxies
}

// New returns the service.
func New(o Options) *Service {
	return &Service{options: o, proxies: forwarded.NewProxies(o.Frontend.TrustedProxies)}
}

// Register adds the service to the server.
func (s *Service) Register(r grpc.ServiceRegistrar) { authv3.RegisterAuthorizationServer(r, s) }

// Check decides one request. It returns Unavailable before the first plans are loaded, and
// the status of a cancelled call.
func (s *Service) Check(ctx context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	attributes, err := s.attributesOf(ctx, r.GetAttributes())
	if probed := s.probe(ctx, r.GetAttributes().GetRequest().GetHttp(), &attributes, err); probed != nil {
		return probed, nil
	}
	var decision *limiter.Decision
	if err == nil {
		decision, err = s.options.Engine.Decide(ctx, &limiter.Check{Cost: 1, Attributes: attributes})
	}
	if invalid, ok := errors.AsType[*limiter.FieldError](err); ok {
		return badRequest(invalid), nil
	}
	switch {
	case errors.Is(err, limiter.ErrNotReady):
		return nil, status.Error(codes.Unavailable, err.Error())
	case err != nil:
		return nil, status.FromContextError(err).Err()
	}
	a := answer.New(decision, answer.Options{BodyOnDenialOnly: true, ForClients: true, LegacyHeaders: s.options.Frontend.LegacyHeaders})
	defer a.Release()
	if decision.Allowed {
		return allowed(a), nil
	}
	return denied(a.Status, a.Headers, string(a.Body)), nil
}

func allowed(a *answer.Answer) *authv3.CheckResponse {
	return &authv3.CheckResponse{
		Status: &statuspb.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
			ResponseHeadersToAdd: headersOf(a.Headers),
		}},
	}
}

func denied(code int, headers []answer.Header, body string) *authv3.CheckResponse {
	return &authv3.CheckResponse{
		Status: &statuspb.Status{Code: int32(codeOf(code)), Message: http.StatusText(code)}, //nolint:gosec // a code of gRPC is small
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(code)}, //nolint:gosec // a status of HTTP
			Headers: headersOf(headers),
			Body:    body,
		}},
	}
}

// badRequest returns the answer for a malformed request.
func badRequest(e *limiter.FieldError) *authv3.CheckResponse {
	body, _ := json.Marshal(answer.InvalidRequest(e).WithStatus(http.StatusBadRequest)) //nolint:errchkjson // plain data
	headers := []answer.Header{{Name: answer.HeaderContentType, Value: answer.TypeProblem}}
	return denied(http.StatusBadRequest, headers, string(body))
}

// codeOf returns the gRPC code that is closest to the HTTP status.
func codeOf(status int) codes.Code {
	switch status {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	default:
		return codes.ResourceExhausted
	}
}

// headersOf returns headers that overwrite headers of the upstream with the same names.
func headersOf(headers []answer.Header) []*corev3.HeaderValueOption {
	options := make([]*corev3.HeaderValueOption, len(headers))
	for i, h := range headers {
		options[i] = &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: h.Name, Value: h.Value},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}
	}
	return options
}
