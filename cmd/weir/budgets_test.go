// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/frontend/envoyrls/unsent"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// defaultBudgets returns the budgets without any flag.
func defaultBudgets() plan.Budgets {
	f := &managerFlags{}
	f.addBudgets(pflag.NewFlagSet("", pflag.ContinueOnError))
	return f.Budgets
}

// What untrusted parties may fill by default has room in the memory that the Go runtime may use, with the chart's limit of
// 512 MiB. docs/security.md has the same sum.
func TestBudgetsFitIntoMemory(t *testing.T) {
	g := NewWithT(t)
	const mebibyte = 1 << 20
	total, connections := defaultBudgets().Total, connlimit.DefaultBounds
	sum := 0
	for name, bytes := range map[string]int{
		"plans, with expressions, the index and a second index": total.Bytes,
		"key groups":   total.KeyBytes,
		"exceptions":   total.ExceptionBytes,
		"connections":  int(connections.Unserved.Bytes + connections.Served.Bytes),
		"kept charges": unsent.MaxBytes,
		// An idle process has 7 to 15 MiB.
		"the process itself": 24 * mebibyte,
	} {
		t.Logf("%3d MiB %s", bytes/mebibyte, name)
		g.Expect(bytes).To(BeNumerically(">", 0), name)
		sum += bytes
	}
	g.Expect(sum).To(BeNumerically("<=", 460*mebibyte))

	limit := resource.MustParse(chartValues(t).Resources.Limits["memory"])
	g.Expect(memoryRatio * float64(limit.Value())).To(BeNumerically(">=", sum))
}

// By default there is room for 20,000 ordinary policies, 1,000 of them and 1,000 exceptions in one Namespace, and 200,000 keys
// of 20 characters in 250 key groups of one Namespace, as docs/tasks/tiers.md measures.
func TestDefaultBudgetsAdmitOrdinaryObjects(t *testing.T) {
	g := NewWithT(t)
	budgets := defaultBudgets()
	policy, problems := compile.Compile(testpolicy.Numbered(19_999), compile.Everything(), time.Unix(1_900_000_000, 0))
	g.Expect(problems).To(BeEmpty())
	policies := usageOf(t, policy)
	g.Expect(budgets.Total.Policies).To(Equal(20_000))
	g.Expect(20_000 * policies.Bytes).To(BeNumerically("<=", budgets.Total.Bytes))
	g.Expect(budgets.Namespace.Policies * policies.Bytes).To(BeNumerically("<=", budgets.Namespace.Bytes))

	exceptions := usageOf(t, &plan.Exception{
		Namespace: "shop", Name: "launch-0001", UID: strings.Repeat("u", 36), Generation: 1, Policy: "api", Key: []string{"tenant-0000000000001"},
		UntilMillis: 1_900_000_000_000, Action: plan.ActionLimit, Limits: []plan.ExceptionLimit{{Name: "burst", Threshold: 1000}},
		Reason: "Launch of the new shop, see ticket 12345.",
	})
	g.Expect(budgets.Namespace.Exceptions * exceptions.ExceptionBytes).To(BeNumerically("<=", budgets.Namespace.ExceptionBytes))

	var keys []string
	for i := range 800 {
		keys = append(keys, fmt.Sprintf("tenant-%013d", i))
	}
	groups := usageOf(t, &plan.KeyGroup{Namespace: "shop", Name: "gold-001", UID: strings.Repeat("u", 36), Group: "gold", Keys: plan.NewKeyList(keys...)})
	g.Expect(250 * groups.KeyBytes).To(BeNumerically("<=", budgets.Namespace.KeyBytes))
}

func usageOf(tb testing.TB, r plan.Record) plan.Usage {
	tb.Helper()
	data, err := plan.Encode(r)
	if err != nil {
		tb.Fatal(err)
	}
	return plan.UsageOf(r, len(data))
}

// values are the values of the chart that have flags.
type values struct {
	Budgets struct {
		Namespace, Total struct{ Policies, PlanBytes, KeyBytes, Exceptions, ExceptionBytes int }
	}
	Resources struct{ Limits map[string]string }
}

func chartValues(tb testing.TB) (v values) {
	tb.Helper()
	data, err := os.ReadFile("../../charts/weir/values.yaml")
	if err == nil {
		err = yaml.Unmarshal(data, &v)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func TestTheChartHasTheDefaultBudgets(t *testing.T) {
	g := NewWithT(t)
	budgets, chart := defaultBudgets(), chartValues(t).Budgets
	g.Expect(plan.Budget{
		Policies: chart.Namespace.Policies, Bytes: chart.Namespace.PlanBytes, KeyBytes: chart.Namespace.KeyBytes,
		Exceptions: chart.Namespace.Exceptions, ExceptionBytes: chart.Namespace.ExceptionBytes,
	}).To(Equal(budgets.Namespace))
	g.Expect(plan.Budget{
		Policies: chart.Total.Policies, Bytes: chart.Total.PlanBytes, KeyBytes: chart.Total.KeyBytes,
		ExceptionBytes: chart.Total.ExceptionBytes,
	}).To(Equal(budgets.Total))
}
