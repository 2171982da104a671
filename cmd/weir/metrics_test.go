// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"regexp"
	"runtime"
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

// docs/metrics.md lists exactly the registered metrics with their labels.
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

	g.Expect(documentedMetrics(t)).To(Equal(registeredMetrics(registry)))
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

// registeredMetrics returns the labels of each weir_ metric, by its name.
func registeredMetrics(registry *prometheus.Registry) map[string]string {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	form := regexp.MustCompile(`fqName: "(weir_[a-z_]+)".*variableLabels: \{([^}]*)\}`)
	found := map[string]string{}
	for d := range descriptions {
		if m := form.FindStringSubmatch(d.String()); m != nil {
			found[m[1]] = m[2]
		}
	}
	return found
}

// documentedMetrics reads the rows | `name` | type | `label`, `label` | ... |.
func documentedMetrics(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(weir_[a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		found[row[1]] = strings.NewReplacer("`", "", " ", "").Replace(row[2])
	}
	return found
}
