// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/internal/tracing"
)

// collector receives spans over OTLP.
func collector(t *testing.T) (url string, received func() *coltracepb.ExportTraceServiceRequest) {
	t.Helper()
	bodies := make(chan []byte, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.URL.Path == "/v1/traces" {
			bodies <- body
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() *coltracepb.ExportTraceServiceRequest {
		request := &coltracepb.ExportTraceServiceRequest{}
		NewWithT(t).Expect(proto.Unmarshal(<-bodies, request)).To(Succeed())
		return request
	}
}

// unset clears the variables that enable tracing.
func unset(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	} {
		t.Setenv(name, "")
	}
}

func TestSpansAreExportedAsTheEnvironmentConfigures(t *testing.T) {
	g := NewWithT(t)
	unset(t)
	url, received := collector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	spans, err := tracing.FromEnvironment(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler))
	g.Expect(err).NotTo(HaveOccurred())
	_, span := spans.Provider.Tracer("test").Start(t.Context(), "one")
	span.End()
	g.Expect(spans.Close(t.Context())).To(Succeed(), "exports the remaining spans")
	sent := received().GetResourceSpans()[0]
	g.Expect(sent.GetScopeSpans()[0].GetSpans()[0].GetName()).To(Equal("one"))
	attributes := map[string]string{}
	for _, a := range sent.GetResource().GetAttributes() {
		attributes[a.GetKey()] = a.GetValue().GetStringValue()
	}
	g.Expect(attributes).To(And(HaveKeyWithValue("service.name", "weir"), HaveKeyWithValue("service.version", "v1.2.3"),
		HaveKeyWithValue("deployment.environment", "test")))
	g.Expect(spans.Propagator.Fields()).To(ContainElement("traceparent"))
}

func TestTracingIsOffByDefaultAndWhenDisabled(t *testing.T) {
	for name, environment := range map[string]map[string]string{
		"no variable": {},
		"none":        {"OTEL_TRACES_EXPORTER": "none"},
		"disabled":    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", "OTEL_SDK_DISABLED": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			unset(t)
			for variable, value := range environment {
				t.Setenv(variable, value)
			}
			spans, err := tracing.FromEnvironment(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(spans).To(BeNil())
			g.Expect(spans.Close(t.Context())).To(Succeed())
		})
	}
}

func TestUnknownValuesAreErrors(t *testing.T) {
	for variable, allowed := range map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp, console or none", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf or grpc",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf or grpc",
	} {
		unset(t)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
		t.Setenv(variable, "carrier-pigeon")
		_, err := tracing.FromEnvironment(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler))
		NewWithT(t).Expect(err).To(MatchError(variable + `: "carrier-pigeon" is not ` + allowed))
	}
}

// The variable of the traces takes precedence.
func TestProtocolOfTheEnvironment(t *testing.T) {
	g := NewWithT(t)
	unset(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	received := make(chan string, 1)
	server := grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(server, collectorServer{received: received})
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+lis.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
	spans, err := tracing.FromEnvironment(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler))
	g.Expect(err).NotTo(HaveOccurred())
	_, span := spans.Provider.Tracer("test").Start(t.Context(), "one")
	span.End()
	g.Expect(spans.Close(t.Context())).To(Succeed())
	g.Expect(<-received).To(Equal("one"))
}

// collectorServer reports the name of the first span of each export.
type collectorServer struct {
	coltracepb.UnimplementedTraceServiceServer

	received chan<- string
}

func (c collectorServer) Export(_ context.Context, r *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	c.received <- r.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0].GetName()
	return &coltracepb.ExportTraceServiceResponse{}, nil
}
