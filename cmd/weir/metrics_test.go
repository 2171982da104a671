// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	plans "github.com/weir-dev/weir/internal/limiter/registry"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/internal/manager"
	"github.com/weir-dev/weir/internal/standalone"
	"github.com/weir-dev/weir/internal/tlsfiles"
	"github.com/weir-dev/weir/internal/webhook/intake"
	webhook "github.com/weir-dev/weir/internal/webhook/v1alpha1"
)

// docs/metrics.md lists exactly the registered metrics, with their labels and the first sentence of their help texts.
func TestMetricsDocument(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(newBuildInfo())
	endpoint, err := standalone.New(t.Context(), standalone.Options{
		Policies: []string{"../../config/samples"}, RedisURL: "redis://127.0.0.1:1",
		Options: endpoint.Options{StoreTimeout: time.Second, SliceKeys: 1, Observe: true, Traffic: true, Logger: slog.New(slog.DiscardHandler), Registry: registry},
	})
	g.Expect(err).NotTo(HaveOccurred())
	defer endpoint.Close()
	plans.NewWriter(nil, "weir:", plans.WriterOptions{Installation: plans.NewInstallation("weir", ""), Registerer: registry})
	manager.NewPolicyMetrics(registry)
	tlsfiles.NewExpiry(registry)
	_, err = redisclient.NewCredentialsCommand(t.Context(), `echo {"password":"p","expiry":"2999-01-01T00:00:00Z"}`, slog.New(slog.DiscardHandler), registry)
	g.Expect(err).NotTo(HaveOccurred())
	intake.New(intake.Options{Judged: 1, Registerer: registry})
	webhook.NewReviews(registry)
	plans.NewWatcher(nil, "weir:", plans.WatcherOptions{Installation: plans.NewInstallation("weir", ""), Replica: "r", Registerer: registry})

	g.Expect(documentedMetrics(t)).To(Equal(registeredMetrics(t, registry)))
}

func TestBuildInfo(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(newBuildInfo())
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(families).To(HaveLen(1))

	metric := families[0].GetMetric()[0]
	labels := map[string]string{}
	for _, label := range metric.GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	g.Expect(metric.GetGauge().GetValue()).To(Equal(1.0))
	g.Expect(labels).To(Equal(map[string]string{
		"version": version, "commit": commit, "date": date, "goversion": runtime.Version(),
	}))
}

// described is what docs/metrics.md and the code have in common about a metric.
type described struct{ labels, sentence string }

// registeredMetrics returns each weir_ metric by its name.
func registeredMetrics(t *testing.T, registry *prometheus.Registry) map[string]described {
	t.Helper()
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	form := regexp.MustCompile(`fqName: "(weir_[a-z_]+)", help: ("(?:[^"\\]|\\.)*").*variableLabels: \{([^}]*)\}`)
	found := map[string]described{}
	for d := range descriptions {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			continue
		}
		help, err := strconv.Unquote(m[2])
		if err != nil {
			t.Error(err)
		}
		found[m[1]] = described{labels: m[3], sentence: firstSentence(help)}
	}
	return found
}

// documentedMetrics reads the rows | `name` | type | `label`, `label` | Sentence. ... |.
func documentedMetrics(t *testing.T) map[string]described {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	code := strings.NewReplacer("`", "")
	found := map[string]described{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(weir_[a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		found[row[1]] = described{
			labels:   strings.ReplaceAll(code.Replace(row[2]), " ", ""),
			sentence: firstSentence(code.Replace(links.ReplaceAllString(row[3], "$1"))),
		}
	}
	return found
}

// firstSentence returns the text up to the first full stop that a space follows.
func firstSentence(text string) string {
	if sentence, _, more := strings.Cut(text, ". "); more {
		return sentence + "."
	}
	return text
}
