// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"net/http"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
)

// tracer returns the tracer of the engine, or nil without tracing.
func (e *Server) tracer() trace.Tracer {
	if e.options.Tracer == nil {
		return nil
	}
	return e.options.Tracer.Tracer("github.com/weir-dev/weir/internal/limiter")
}

// traceRedis adds a span for every command, without its statement, which contains keys of
// callers.
func (e *Server) traceRedis() {
	if e.options.Tracer == nil {
		return
	}
	err := redisotel.InstrumentTracing(e.options.Redis,
		redisotel.WithTracerProvider(e.options.Tracer), redisotel.WithDBStatement(false))
	if err != nil {
		e.options.Logger.Error("Failed to trace Redis commands", "error", err)
	}
	redisclient.HideReplies(e.options.Redis) // from the hook of the spans, too
}

// traceHTTP adds a span for every request that is not a probe.
func (e *Server) traceHTTP(handler http.Handler) http.Handler {
	if e.options.Tracer == nil {
		return handler
	}
	return otelhttp.NewHandler(withoutKeys(handler), "weir",
		otelhttp.WithTracerProvider(e.options.Tracer), otelhttp.WithPropagators(e.options.Propagator),
		otelhttp.WithFilter(func(r *http.Request) bool { return !httpapi.IsProbe(r) }),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return httpapi.SpanName(r) }))
}

// withoutKeys clears the attributes in which otelhttp records the original request:
// addresses, paths and user agents can be keys.
func withoutKeys(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		span := trace.SpanFromContext(r.Context())
		span.SetAttributes(semconv.ClientAddress(""), semconv.UserAgentOriginal(""))
		if r.URL.Path != "" {
			span.SetAttributes(semconv.URLPath(httpapi.RoutePath(r)))
		}
		next.ServeHTTP(w, r)
	})
}

// traceGRPC adds a span for every call.
func (e *Server) traceGRPC() stats.Handler {
	if e.options.Tracer == nil {
		return nil
	}
	return otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(e.options.Tracer), otelgrpc.WithPropagators(e.options.Propagator))
}
