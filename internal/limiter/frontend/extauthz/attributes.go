// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package extauthz

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/peer"

	"github.com/weir-dev/weir/internal/limiter/frontend/forwarded"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// domainExtension is the context extension that names the rate limit domain.
const domainExtension = "domain"

// attributesOf returns the attributes of the original request. Envoy sends most of them in
// fields of its own, which are trusted; X-Forwarded-For is trusted only as far as
// TrustedProxies covers. It also returns a *limiter.FieldError for an invalid context extension.
func (s *Service) attributesOf(ctx context.Context, a *authv3.AttributeContext) (plan.Attributes, error) {
	targets, err := s.targetsOf(a)
	request := a.GetRequest().GetHttp()
	headers, repeated, forwardedFor := headersOfRequest(request)
	attributes := plan.Attributes{
		Targets:         targets,
		Method:          request.GetMethod(),
		Host:            request.GetHost(),
		Path:            request.GetPath(),
		Query:           request.GetQuery(), // Envoy sends it in the path
		Headers:         headers,
		RepeatedHeaders: repeated,
		RemoteAddress:   s.proxies.Client(addressOf(a.GetSource().GetAddress()), forwardedFor),
		Principal:       a.GetSource().GetPrincipal(),
		Domain:          a.GetContextExtensions()[domainExtension],
		Claims:          claimsOf(a),
	}
	s.applyPrincipalHeader(ctx, &attributes)
	return attributes, err
}

// claimsMetadata is the namespace of the dynamic metadata in which Envoy's JWT filter stores the payloads of the tokens
// that it has verified, each by its payload_in_metadata. All other namespaces are ignored: filters fill them from
// requests of clients.
const claimsMetadata = "envoy.filters.http.jwt_authn"

// claimsOf returns the claims of the verified tokens, nil if Envoy sends none.
func claimsOf(a *authv3.AttributeContext) map[string]map[string]string {
	payloads := a.GetMetadataContext().GetFilterMetadata()[claimsMetadata].GetFields()
	if len(payloads) == 0 {
		return nil
	}
	claims := make(map[string]map[string]string, len(payloads))
	for name, payload := range payloads {
		if fields := payload.GetStructValue(); fields != nil {
			claims[name] = plan.ClaimsOf(fields.AsMap())
		}
	}
	return claims
}

// headersOfRequest returns the headers by lower-case name, the names of repeated ones, and the
// values of X-Forwarded-For. Envoy sends repeated headers joined, or one by one if it is
// configured to send raw headers.
func headersOfRequest(r *authv3.AttributeContext_HttpRequest) (headers map[string]string, repeated, forwardedFor []string) {
	headers = make(map[string]string, len(r.GetHeaders())+len(r.GetHeaderMap().GetHeaders()))
	add := func(name, value string) {
		name, value = strings.ToLower(name), plan.TrimValue(value)
		switch canonical := http.CanonicalHeaderKey(name); {
		case strings.HasPrefix(name, ":"):
		case canonical == plan.HeaderFor:
			forwardedFor = append(forwardedFor, value)
		case !plan.IsRequestHeader(canonical):
		default:
			if before, twice := headers[name]; twice {
				value = before + "," + value
				repeated = append(repeated, name)
			}
			headers[name] = value
		}
	}
	for name, value := range r.GetHeaders() {
		add(name, value)
	}
	for _, h := range r.GetHeaderMap().GetHeaders() {
		add(h.GetKey(), cmp.Or(h.GetValue(), string(h.GetRawValue())))
	}
	return headers, repeated, forwardedFor
}

// addressOf returns the address of a socket, or the zero address if it is unknown.
func addressOf(a *corev3.Address) netip.Addr {
	address, err := netip.ParseAddr(a.GetSocketAddress().GetAddress())
	if err != nil {
		return netip.Addr{}
	}
	return forwarded.CanonicalAddr(address)
}

// applyPrincipalHeader sets the principal from PrincipalHeader if a trusted Envoy sent it.
func (s *Service) applyPrincipalHeader(ctx context.Context, a *plan.Attributes) {
	if s.options.Frontend.PrincipalHeader == "" {
		return
	}
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return
	}
	address, err := netip.ParseAddrPort(caller.Addr.String())
	name := strings.ToLower(s.options.Frontend.PrincipalHeader)
	if err != nil || !s.proxies.Contains(forwarded.CanonicalAddr(address.Addr())) {
		if _, sent := a.Headers[name]; sent {
			s.options.Ignored.ReportHeader(address.Addr(), name)
		}
		return
	}
	if slices.Contains(a.RepeatedHeaders, name) {
		a.Principal, a.PrincipalRepeated = "", true
		return
	}
	a.Principal = cmp.Or(strings.TrimSpace(a.Headers[name]), a.Principal)
}
