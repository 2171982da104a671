// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tracing sends spans to where the environment says, by the variables that
// every program with OpenTelemetry obeys:
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

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

// wishes are the variables by which somebody asks for spans. Without one there are
// none: the exporters would otherwise send them to a collector on this host.
var wishes = []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}

// flushTimeout bounds how long the end of the process waits for spans to be sent.
const flushTimeout = 5 * time.Second

// Tracing is where spans go and how calls say which trace they belong to.
type Tracing struct {
	Provider   trace.TracerProvider
	Propagator propagation.TextMapPropagator

	shutdown func(context.Context) error
}

// FromEnvironment returns the tracing that the environment asks for, nil if it asks
// for none. Errors of sending are logged, and never hold up a decision: spans wait
// in a queue, and those that find it full are dropped.
func FromEnvironment(ctx context.Context, version string, logger *slog.Logger) (*Tracing, error) {
	wished := slices.ContainsFunc(wishes, func(name string) bool { return variable(name) != "" })
	if !wished || strings.EqualFold(variable("OTEL_SDK_DISABLED"), "true") {
		return nil, nil //nolint:nilnil // no tracing is no error
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.Warn("Spans were not sent", "error", err)
	}))
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %w", err)
	}
	if autoexport.IsNoneSpanExporter(exporter) {
		return nil, nil //nolint:nilnil // no tracing is no error
	}
	// What the environment says of the resource comes last and wins.
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("weir"), semconv.ServiceVersion(version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &Tracing{Provider: provider, Propagator: autoprop.NewTextMapPropagator(), shutdown: provider.Shutdown}, nil
}

// variable reads a variable of the environment. The library reads the others itself:
// flags for these would be names nobody knows.
func variable(name string) string { return os.Getenv(name) } //nolint:forbidigo // see above

// Close sends what is left, also after the end of ctx. It may be called on nil.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	return t.shutdown(ctx)
}
