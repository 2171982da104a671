// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// mayBeEmpty are the panels about what a healthy installation never counts.
var mayBeEmpty = []string{
	"Denials of policies in mode Shadow", "Blocks started", "Decisions by failureMode", "Decisions without Redis", "Expressions that fail",
	"Failed round trips", "Decisions in a flood of new keys", "Policies that are not ready", "Webhook latency", "Rejected webhook requests",
}

// A real Prometheus that has scraped Weir answers every query of the dashboards.
func TestDashboardsInPrometheus(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	metrics := testenv.FreeAddr(t)
	p := c.manager("--metrics-address", metrics, "--replica", "a")
	warning := c.policy("p", 1)
	warning.Spec.Limits[0].WarnAt = new(int32(80))
	warning.Spec.Limits[0].Candidate = &v1alpha1.Candidate{Threshold: new(int64(2))}
	c.create(warning)
	c.create(testpolicy.Make("shop/tokens").Limit("hourly", v1alpha1.AlgorithmFixedWindow, 10, "1h").
		Limit("slow", v1alpha1.AlgorithmTokenBucket, 10, "720h").Reservations("1m", 10).Obj())
	calls := c.policy("calls", 5)
	calls.Spec.Limits = []v1alpha1.Limit{{Name: "calls", Algorithm: v1alpha1.AlgorithmConcurrency, Threshold: 5}}
	calls.Spec.Reservations = v1alpha1.Reservations{MaxTTL: "1m"}
	c.create(calls)
	g.Eventually(p.Enforces("calls")).Should(Equal(int64(5)))
	g.Eventually(p.Enforces("p")).Should(Equal(int64(1)))
	g.Eventually(p.Enforces("tokens")).Should(Equal(int64(10)))
	ask := startPrometheus(t, metrics)
	round := 0
	traffic := func() {
		round++
		g.Expect(overrun(p, fmt.Sprint("key-", round))).To(Succeed())
		for range 2 {
			_, _, err := p.Check(`{"policies":["shop/p","shop/calls"],"key":"a"}`)
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	g.Eventually(func() int {
		traffic()
		n, _ := ask(`rate(weir_decisions_total{verdict="denied"}[1m]) > 0`)
		return n
	}, process.Timeout, "500ms").Should(BeNumerically(">", 0))

	for _, file := range []string{"dashboard.json", "dashboard-tenants.json"} {
		text, err := os.ReadFile("../../charts/weir/files/" + file)
		g.Expect(err).NotTo(HaveOccurred())
		var dashboard struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		g.Expect(json.Unmarshal(text, &dashboard)).To(Succeed())
		g.Expect(len(dashboard.Panels)).To(BeNumerically(">", 10), file)
		variables := strings.NewReplacer("$namespace", "shop", "$policy", ".*", "$__rate_interval", "1m")
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				query := variables.Replace(target.Expr)
				g.Eventually(func() bool { // traffic continues, because a query looks back only one minute
					n, err := ask(query)
					g.Expect(err).NotTo(HaveOccurred(), "%s, %s: %s", file, panel.Title, query)
					if n == 0 {
						traffic()
					}
					return n > 0 || slices.Contains(mayBeEmpty, panel.Title)
				}, process.Timeout, "500ms").Should(BeTrue(), "%s, %s: no data for %s", file, panel.Title, query)
			}
		}
	}
}

// overrun reserves units of shop/tokens for the key, and commits and charges more than its quota.
func overrun(p *process.Running, key string) error {
	post := func(path, body string) (string, error) {
		var answer struct{ Reservation string }
		status, _, err := p.Post(path, body, &answer)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s: status %d", path, status)
		}
		return answer.Reservation, err
	}
	reservation, err := post("/v1/reserve", fmt.Sprintf(`{"policies":["shop/tokens"],"key":%q,"cost":2}`, key))
	if err != nil {
		return err
	}
	if _, err = post("/v1/commit", fmt.Sprintf(`{"reservation":%q,"cost":30}`, reservation)); err != nil {
		return err
	}
	_, err = post("/v1/charge", fmt.Sprintf(`{"policies":["shop/tokens"],"key":%q}`, key))
	return err
}

// startPrometheus starts a Prometheus that scrapes a target each second. The returned function
// runs a query and returns the number of series in the result.
func startPrometheus(t *testing.T, target string) func(query string) (int, error) {
	t.Helper()
	g := NewWithT(t)
	dir, address := t.TempDir(), testenv.FreeAddr(t)
	config := filepath.Join(dir, "prometheus.yml")
	g.Expect(os.WriteFile(config, fmt.Appendf(nil,
		"scrape_configs: [{job_name: weir-metrics, scrape_interval: 1s, honor_labels: true, static_configs: [{targets: [%q]}]}]", target), 0o600)).To(Succeed())
	server := testenv.Command(process.Prometheus(t), "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	g.Expect(server.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	return func(query string) (int, error) {
		response, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return 0, err
		}
		defer func() { _ = response.Body.Close() }()
		var answer struct {
			Status, Error string
			Data          struct{ Result []json.RawMessage }
		}
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			return 0, err
		}
		if answer.Status != "success" {
			return 0, fmt.Errorf("%s: %s", answer.Status, answer.Error)
		}
		return len(answer.Data.Result), nil
	}
}
