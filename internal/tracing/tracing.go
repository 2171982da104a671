// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tracing exports spans as configured by the environment variables of
// OpenTelemetry:
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

// enablingVariables turn tracing on. Without any of them it stays off; the exporters
// would otherwise send spans to a collector on localhost.
var enablingVariables = []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}

// flushTimeout bounds how long Close waits for the last spans to be exported.
const flushTimeout = 5 * time.Second

// Tracing is the provider of spans and the propagator of trace contexts.
type Tracing struct {
	Provider   trace.TracerProvider
	Propagator propagation.TextMapPropagator

	shutdown func(context.Context) error
}

// FromEnvironment returns the tracing that the environment configures, nil if it
// enables none. Exporting never delays a decision: spans wait in a queue and are
// dropped when it is full. Export errors are logged.
func FromEnvironment(ctx context.Context, version string, logger *slog.Logger) (*Tracing, error) {
	enabled := slices.ContainsFunc(enablingVariables, func(name string) bool { return environment(name) != "" })
	if !enabled || strings.EqualFold(environment("OTEL_SDK_DISABLED"), "true") {
		return nil, nil //nolint:nilnil // tracing is off
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.Warn("Failed to export spans", "error", err)
	}))
	exporter, err := newExporter(ctx)
	if exporter == nil || err != nil {
		return nil, err
	}
	// Attributes from the environment come last and take precedence.
	attributes, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("weir"), semconv.ServiceVersion(version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(attributes))
	return &Tracing{Provider: provider, Propagator: autoprop.NewTextMapPropagator(), shutdown: provider.Shutdown}, nil
}

// newExporter returns the exporter of OTEL_TRACES_EXPORTER, nil for none. The exporters read their other
// variables themselves.
func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	switch name := environment("OTEL_TRACES_EXPORTER"); name {
	case "", "otlp":
		return newOTLPExporter(ctx)
	case "console":
		return stdouttrace.New()
	case "none":
		return nil, nil //nolint:nilnil // tracing is off
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not otlp, console or none", name)
	}
}

// newOTLPExporter returns the exporter of the protocol that the environment names. The variable of the traces
// takes precedence.
func newOTLPExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	variable := "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	if environment(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch protocol := environment(variable); protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("%s: %q is not http/protobuf or grpc", variable, protocol)
	}
}

// environment reads an environment variable. The OpenTelemetry library reads the others
// itself; flags for these would have unfamiliar names.
func environment(name string) string { return os.Getenv(name) } //nolint:forbidigo // see above

// Close exports the remaining spans, even if ctx has ended. It may be called on nil.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	return t.shutdown(ctx)
}
