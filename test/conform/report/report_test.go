// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/conform/history"
	"github.com/weir-dev/weir/test/conform/report"
	"github.com/weir-dev/weir/test/conform/scenario"
	"github.com/weir-dev/weir/test/conform/system"
)

type named string

func (n named) Name() string { return string(n) }

func (n named) Description() system.Description {
	return system.Description{Version: "v1", Settings: []string{"a", "b"}}
}

func (n named) Start(context.Context, *system.Environment, system.Options) (system.Cluster, error) {
	return nil, system.ErrUnsupported
}

func results() *report.Report {
	r := &report.Report{Scenarios: scenario.All()[:2], Systems: []system.System{named("one"), named("two")}}
	r.Add(&scenario.Result{
		Scenario: "exact-1", System: "one", Over: 20, OverDocumented: 3, Under: 7, Counts: history.Counts{Admitted: 5, Denied: 6, Failed: 1},
		P50: 1500 * time.Microsecond, P99: 12 * time.Millisecond, Figures: []scenario.Figure{{Name: "keys", Value: "9"}},
	})
	r.Add(&scenario.Result{Scenario: "exact-1", System: "two", Unsupported: "no store"})
	return r
}

func TestMarkdown(t *testing.T) {
	NewWithT(t).Expect(results().Markdown()).To(Equal(`### How many units they wrongly admit or deny

| | one | two |
|---|---|---|
| 400 parallel calls, 1 instance | 20 (3) / 7 | - |
| 400 parallel calls, 2 instances | - | - |

### Time of a call, p50 and p99

| | one | two |
|---|---|---|
| 400 parallel calls, 1 instance | 1.5 ms, 12.0 ms | - |
| 400 parallel calls, 2 instances | - | - |

### Speed, memory and recovery

| | one | two |
|---|---|---|
| 400 parallel calls, 1 instance | 1 calls failed; keys: 9 | - |
| 400 parallel calls, 2 instances | - | - |

- one v1: a, b
- two v1: a, b
`))
}

func TestLine(t *testing.T) {
	g := NewWithT(t)
	result := &scenario.Result{Scenario: "edge", System: "one", Over: 1}
	g.Expect(report.Line(result, "1 units over the quota")).To(MatchRegexp(`^one +edge +over 1, documented 0; under 0; .*\n +VIOLATION: 1 units over the quota$`))
	g.Expect(report.Line(result, "")).NotTo(ContainSubstring("VIOLATION"))
	g.Expect(report.Line(&scenario.Result{Scenario: "edge", System: "one", Unsupported: "no store"}, "")).To(MatchRegexp(`^one +edge +not run: no store$`))
}

func TestWrite(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	markdown, json := filepath.Join(folder, "r.md"), filepath.Join(folder, "r.json")
	g.Expect(results().Write(markdown, json)).To(Succeed())
	text, err := os.ReadFile(json)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(ContainSubstring(`"OverDocumented": 3`))
	g.Expect(markdown).To(BeARegularFile())
	g.Expect(results().Write("", "")).To(Succeed())
}

// A result is a violation by what the limiter documents, and by what the scenario breaks.
func TestViolations(t *testing.T) {
	g := NewWithT(t)
	sound, faulty := &scenario.Scenario{}, &scenario.Scenario{Fault: true, Unreplicated: 2}
	g.Expect(sound.Violation(&scenario.Result{Over: 9})).To(BeEmpty())
	g.Expect(sound.Violation(&scenario.Result{OverDocumented: 1})).To(Equal("1 units over the quota"))
	g.Expect(sound.Violation(&scenario.Result{Under: 2})).To(Equal("2 units denied though there was room"))
	g.Expect(sound.Violation(&scenario.Result{Counts: history.Counts{Failed: 3}})).To(Equal("3 calls failed"))
	g.Expect(faulty.Violation(&scenario.Result{OverDocumented: 2, Under: 2, Counts: history.Counts{Failed: 3}})).To(BeEmpty())
	g.Expect(faulty.Violation(&scenario.Result{OverDocumented: 3})).To(Equal("3 units over the quota"))
}
