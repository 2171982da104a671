// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/test/testenv"
)

// What Redis quotes in an error is neither in the log nor in spans, metrics or answers.
func TestNothingShowsWhatRedisQuotes(t *testing.T) {
	const secret = "sk-live-4711"
	server := testenv.StartRejectingRedis(t, "")
	for _, reply := range []string{
		"-ERR unknown command 'EVALSHA', with args beginning with: '" + secret + "' \r\n",
		"-NOPERM No permissions to access a key '" + secret + "'\r\n",
		"-OOM command not allowed, " + secret + "\r\n",
		"-NOSCRIPT No matching script " + secret + "\r\n",
		"*1\r\n*1\r\n$" + strconv.Itoa(len("ERR "+secret)) + "\r\nERR " + secret + "\r\n", // of one call of a batch
		"?" + secret + "\r\n",
	} {
		t.Run(reply, func(t *testing.T) {
			g := NewWithT(t)
			server.SetReply(reply)
			client, err := redisclient.New("redis://"+server.Addr, time.Minute)
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = client.Close() }()
			log, spans, metrics := &testenv.Log{}, tracetest.NewInMemoryExporter(), prometheus.NewRegistry()
			f := newFixture(t, func(o *endpoint.Options) {
				o.Redis, o.Registry = client, metrics
				o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
			}, loginPlan())
			shown := []any{}
			for _, ask := range f.frontends {
				shown = append(shown, ask(g, secret+"-user"))
			}
			g.Eventually(log.String).Should(ContainSubstring("error="))
			g.Eventually(func() []string { return names(spans.GetSpans()) }).Should(ContainElement(HavePrefix("evalsha")))
			for _, span := range spans.GetSpans() {
				shown = append(shown, span.Attributes, span.Events, span.Status)
			}
			families, err := metrics.Gather()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(fmt.Sprint(append(shown, log.String(), families)...)).NotTo(ContainSubstring(secret))
		})
	}
}
