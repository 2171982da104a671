// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// series are the samples of one test, one each 30 s, by the name of their series.
type series map[string]string

// alertCase has samples with which an alert fires, and others with which it does not.
type alertCase struct {
	fires  series
	labels string // of the alert, except its severity
	quiet  series
	at     string // the time of the evaluation; empty: 15m
}

const (
	redis  = `{namespace="weir-system",pod="a",node="r:1"}`
	policy = `{namespace="shop",policy="login"}`
	pod    = `{namespace="weir-system",job="weir-metrics",pod="a"}`
	other  = `{namespace="weir-system",job="weir-metrics",pod="b"}`
)

// denials are counters of denied checks and started blocks.
func denials(samples string) series {
	return series{`weir_decisions_total{namespace="shop",policy="login",verdict="denied",pod="a"}`: samples}
}

// roundTrips is a histogram whose observations take the time of a bucket.
func roundTrips(name, labels, fast string) series {
	return series{
		name + `_bucket{` + labels + `le="0.01"}`: fast, name + `_bucket{` + labels + `le="0.05"}`: "0+10x60",
		name + `_bucket{` + labels + `le="+Inf"}`: "0+10x60",
	}
}

var alertCases = map[string]alertCase{
	"WeirAbsent": {
		fires: series{"up": "1x60"}, quiet: series{"weir_build_info": "1x60"},
	},
	"WeirTooManyPolicies": {
		fires:  series{`weir_degraded_decisions_total{namespace="shop",policy="login",mode="Open",cause="expressions"}`: "0+1x60"},
		labels: `{namespace="shop",policy="login",mode="Open"}`,
		quiet:  series{`weir_degraded_decisions_total{namespace="shop",policy="login",mode="Open",cause="timeout"}`: "0+1x60"},
	},
	"WeirDegraded": {
		fires:  series{`weir_degraded_decisions_total{namespace="shop",policy="login",mode="Open",cause="timeout"}`: "0+1x60"},
		labels: `{namespace="shop",policy="login",mode="Open",cause="timeout"}`,
		quiet:  series{`weir_degraded_decisions_total{namespace="shop",policy="login",mode="Open",cause="chain"}`: "0+1x60"},
	},
	"WeirSlotMoves": {
		fires:  series{`weir_degraded_decisions_total{namespace="shop",policy="login",mode="Open",cause="moved"}`: "0+1x60"},
		labels: `{namespace="shop",policy="login",mode="Open"}`,
		quiet:  series{`weir_degraded_decisions_total{namespace="shop",policy="login",mode="Open",cause="timeout"}`: "0+1x60"},
	},
	"WeirRedisDown": {
		fires: series{"weir_redis_up" + pod: "1 0x60"}, labels: pod, quiet: series{"weir_redis_up" + pod: "1x28 0x1 1x60"},
	},
	"WeirRedisEvicts": {
		fires: series{"weir_redis_evicts_keys" + pod: "1x60"}, labels: pod, quiet: series{"weir_redis_evicts_keys" + pod: "0x25 1x2 0x60"},
	},
	"WeirBreakerOpen": {
		fires: series{"weir_store_breaker_open" + redis: "1x60"}, labels: redis,
		quiet: series{"weir_store_breaker_open" + redis: "0x28 1 0x60"},
	},
	"WeirBreakerFlaps": {
		fires: series{"weir_store_breaker_openings_total" + redis: "0+1x60"}, labels: redis,
		quiet: series{"weir_store_breaker_openings_total" + redis: "0x20 2x60"},
	},
	"WeirQueueFull": {
		fires: series{"weir_store_queue_rejections_total" + redis: "0x25 9x60"}, labels: redis,
		quiet: series{"weir_store_queue_rejections_total" + redis: "0x5 9x60"},
	},
	"WeirStoreSlow": {
		fires: roundTrips("weir_store_round_trip_duration_seconds", `node="r:1",`, "0x60"), labels: `{node="r:1"}`,
		quiet: roundTrips("weir_store_round_trip_duration_seconds", `node="r:1",`, "0+10x60"), at: "20m",
	},
	"WeirConnectionsShort": {
		fires:  series{`weir_redis_connection_timeouts_total{pod="a",client="counters"}`: "0x25 9x60"},
		labels: `{pod="a",client="counters"}`,
		quiet:  series{`weir_redis_connection_timeouts_total{pod="a",client="counters"}`: "0x5 9x60"},
	},
	"WeirNotFollowing": {
		fires: series{"weir_registry_following" + pod: "0x60"}, labels: pod, quiet: series{"weir_registry_following" + pod: "1x28 0 1x60"},
	},
	"WeirLagging": {
		fires: series{"weir_registry_lag" + pod: "3x60"}, labels: pod, quiet: series{"weir_registry_lag" + pod: "0x28 3 0x60"},
	},
	"WeirBadPayloads": {
		fires: series{"weir_registry_bad_payloads_total" + pod: "0x20 1x60"}, labels: pod,
		quiet: series{"weir_registry_bad_payloads_total" + pod: "1x60"},
	},
	"WeirRegistryLost": {
		fires: series{"weir_registry_republishes_total" + pod: "1x10 2x10 3x60"}, labels: `{namespace="weir-system",job="weir-metrics"}`,
		// One new epoch, which increase() would extrapolate, and a restart of the leader.
		quiet: series{"weir_registry_republishes_total" + pod: "_x2 1x10 2x60", "weir_registry_republishes_total" + other: "4x10 0x60"},
	},
	"WeirReplicasUneven": {
		fires:  series{"weir_registry_revision" + pod: "7x60", "weir_registry_revision" + other: "6x60"},
		labels: `{namespace="weir-system",job="weir-metrics"}`,
		// Replicas that are scraped before and after an edit, and a new epoch.
		quiet: series{"weir_registry_revision" + pod: "7+1x20 1x60", "weir_registry_revision" + other: "6+1x20 1x60"},
	},
	"WeirSlow": {
		fires: roundTrips("weir_decision_duration_seconds", "", "0x60"), quiet: roundTrips("weir_decision_duration_seconds", "", "0+10x60"),
		at: "20m",
	},
	"WeirNoLeader": {
		fires: series{"weir_leader" + pod: "0x60", "weir_leader" + other: "1 0x60"}, labels: `{namespace="weir-system",job="weir-metrics"}`,
		quiet: series{"weir_leader" + pod: "1x27 0x60", "weir_leader" + other: "0x28 1x60"},
	},
	"WeirPoliciesNotAccepted": {
		fires:  series{`weir_policies{namespace="shop",condition="Accepted",status="False"}`: "2x60"},
		labels: `{namespace="shop"}`,
		quiet: series{
			`weir_policies{namespace="shop",condition="Accepted",status="True"}`: "2x60", `weir_policies{namespace="shop",condition="Ready",status="False"}`: "2x60",
		}, at: "20m",
	},
	"WeirBudgetShort": {
		fires: series{
			`weir_namespace_budget_used_ratio{namespace="shop",resource="bytes"}`: "0.81x60", `weir_namespace_budget_used_ratio{namespace="shop",resource="policies"}`: "0.1x60",
		},
		labels: `{namespace="shop",resource="bytes"}`,
		quiet: series{
			`weir_namespace_budget_used_ratio{namespace="shop",resource="bytes"}`: "0.8x60", `weir_budget_used_ratio{namespace="weir-system",job="weir-metrics",resource="bytes"}`: "0.8x60",
		}, at: "20m",
	},
	"WeirCertificateExpires": {
		fires:  series{`weir_certificate_expiry_timestamp_seconds{namespace="weir-system",job="weir-metrics",pod="a",certificate="webhook"}`: "604800x60"},
		labels: `{namespace="weir-system",job="weir-metrics",certificate="webhook"}`,
		quiet:  series{`weir_certificate_expiry_timestamp_seconds{namespace="weir-system",job="weir-metrics",pod="a",certificate="webhook"}`: "606000x60"},
	},
	"WeirForwardedHeadersIgnored": {
		fires: series{`weir_forwarded_headers_ignored_total{pod="a"}`: "0+1x60"}, labels: `{pod="a"}`,
		quiet: series{`weir_forwarded_headers_ignored_total{pod="a"}`: "5x60"}, at: "20m",
	},
	"WeirChargesDropped": {
		fires:  series{`weir_kept_charges_total{namespace="weir-system",job="weir-metrics",pod="a",outcome="dropped"}`: "0x20 5x60"},
		labels: `{namespace="weir-system",job="weir-metrics"}`,
		quiet:  series{`weir_kept_charges_total{namespace="weir-system",job="weir-metrics",pod="a",outcome="sent"}`: "0x20 5x60"},
	},
	"WeirFlood": {
		fires: series{"weir_overflow_decisions_total" + policy: "0+1x60"}, labels: policy,
		quiet: series{"weir_overflow_decisions_total" + policy: "4x60"},
	},
	"WeirDenialsSurge": {
		fires: denials("0+30x120 3600+450x60"), labels: policy, quiet: denials("0+60x120 7200+120x60"), at: "72m",
	},
	"WeirBlocksSurge": {
		// No block in the hour before.
		fires: series{"weir_blocks_total" + policy: "0x120 0+3x60"}, labels: policy,
		quiet: series{"weir_blocks_total" + policy: "0x120 0+1x60"}, at: "80m",
	},
	"WeirExpressionsFail": {
		fires:  series{`weir_expression_errors_total{namespace="shop",policy="login",field="spec.matches[0].when"}`: "0+1x60"},
		labels: `{namespace="shop",policy="login",field="spec.matches[0].when"}`,
		quiet:  series{`weir_expression_errors_total{namespace="shop",policy="login",field="spec.matches[0].when"}`: "5x60"}, at: "25m",
	},
	"WeirWebhookNotAsked": {
		fires:  series{`apiserver_admission_webhook_fail_open_count{name="ratelimitpolicies.ratelimit.weir.dev"}`: "0x20 1x60"},
		labels: `{name="ratelimitpolicies.ratelimit.weir.dev"}`,
		quiet:  series{`apiserver_admission_webhook_fail_open_count{name="another"}`: "0x20 1x60"},
	},
}

// alertRules returns the rules of the PrometheusRule, by alert.
func alertRules(t *testing.T, values ...string) map[string]map[string]any {
	t.Helper()
	g := NewWithT(t)
	rule := render(t, "weir", append(values, redisURL, "prometheusRule.enabled=true")...).find(t, "PrometheusRule/weir")
	groups, _, err := unstructured.NestedSlice(rule.Object, "spec", "groups")
	g.Expect(err).NotTo(HaveOccurred())
	rules := map[string]map[string]any{}
	for _, item := range groups[0].(map[string]any)["rules"].([]any) {
		item := item.(map[string]any)
		rules[item["alert"].(string)] = item
	}
	return rules
}

// writeYAML writes a value to a file.
func writeYAML(t *testing.T, path string, value any) {
	t.Helper()
	out, err := yaml.Marshal(value)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	write(t, path, string(out))
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := testenv.CommandContext(t.Context(), process.Promtool(t), args...).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(out))
}

// Each alert fires for one set of samples and not for another.
func TestAlertsFire(t *testing.T) {
	g := NewWithT(t)
	rules := alertRules(t)
	g.Expect(slices.Collect(maps.Keys(alertCases))).To(ConsistOf(slices.Collect(maps.Keys(rules))))
	file := filepath.Join(t.TempDir(), "rules.yaml")
	all := slices.Collect(maps.Values(rules))
	write := func() {
		writeYAML(t, file, map[string]any{"groups": []any{map[string]any{"name": "weir", "rules": all}}})
	}
	write()
	promtool(t, "check", "rules", file)
	// A test would have to repeat the annotations; check has parsed their templates.
	for _, rule := range all {
		delete(rule, "annotations")
	}
	write()

	var tests []any
	for name, tc := range alertCases {
		labels := map[string]string{"severity": rules[name]["labels"].(map[string]any)["severity"].(string)}
		for pair := range strings.SplitSeq(strings.Trim(tc.labels, "{}"), ",") {
			if key, value, found := strings.Cut(pair, "="); found {
				labels[key] = strings.Trim(value, `"`)
			}
		}
		tests = append(tests,
			alertTest(name+" fires", name, tc.at, tc.fires, []any{map[string]any{"exp_labels": labels}}),
			alertTest(name+" is quiet", name, tc.at, tc.quiet, []any{}))
	}
	cases := filepath.Join(t.TempDir(), "tests.yaml")
	writeYAML(t, cases, map[string]any{"rule_files": []string{file}, "evaluation_interval": "30s", "tests": tests})
	promtool(t, "test", "rules", cases)
}

// alertTest returns a test of promtool.
func alertTest(name, alert, at string, samples series, want []any) map[string]any {
	if at == "" {
		at = "15m"
	}
	var input []any
	for name, values := range samples {
		input = append(input, map[string]string{"series": name, "values": values})
	}
	return map[string]any{
		"name": name, "interval": "30s", "input_series": input,
		"alert_rule_test": []any{map[string]any{"eval_time": at, "alertname": alert, "exp_alerts": want}},
	}
}

// Each alert can be disabled.
func TestAlertsCanBeDisabled(t *testing.T) {
	for name := range alertRules(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			got := alertRules(t, "prometheusRule.disabled."+name+"=true")
			g.Expect(got).To(HaveLen(len(alertCases) - 1))
			g.Expect(got).NotTo(HaveKey(name))
		})
	}
}

// The rules of docs/slo.md, as printed: both alerts fire when 2% of the decisions are by failureMode and 20% are slow, and not
// at a twentieth of that.
func TestRulesOfTheObjectives(t *testing.T) {
	g := NewWithT(t)
	blocks := testenv.CodeBlocks(read(t, root+"/docs/slo.md"), "yaml")
	g.Expect(blocks).To(HaveLen(1))
	dir := t.TempDir()
	rules, cases := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tests.yaml")
	write(t, rules, blocks[0])
	promtool(t, "check", "rules", rules)
	samples := func(degraded, slow int) series {
		return series{
			`weir_decisions_total{verdict="allowed"}`:             fmt.Sprintf("0+%dx200", 1000-degraded),
			`weir_decisions_total{verdict="degraded_allowed"}`:    fmt.Sprintf("0+%dx200", degraded),
			`weir_decision_duration_seconds_bucket{le="0.01"}`:    fmt.Sprintf("0+%dx200", 1000-slow),
			`weir_decision_duration_seconds_count`:                "0+1000x200",
			`weir_registry_apply_duration_seconds_bucket{le="1"}`: "0+1x200",
			`weir_registry_apply_duration_seconds_count`:          "0+1x200",
		}
	}
	var tests []any
	for _, alert := range []string{"WeirObjectiveFailureMode", "WeirObjectiveSlow"} {
		fires := map[string]any{"exp_labels": map[string]string{"severity": "critical"}}
		tests = append(tests, alertTest(alert+" fires", alert, "90m", samples(20, 200), []any{fires}),
			alertTest(alert+" is quiet", alert, "90m", samples(1, 10), []any{}))
	}
	writeYAML(t, cases, map[string]any{"rule_files": []string{rules}, "evaluation_interval": "30s", "tests": tests})
	promtool(t, "test", "rules", cases)
	// Every metric of the rules is one of Weir, and an unknown record would be a silent alert.
	for _, expression := range regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindAllStringSubmatch(blocks[0], -1) {
		for _, record := range regexp.MustCompile(`weir:\w+:\w+`).FindAllString(expression[1], -1) {
			g.Expect(blocks[0]).To(ContainSubstring("record: " + record + "\n"))
		}
	}
}
