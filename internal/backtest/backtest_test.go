// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/backtest"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// twoPolicies allow ten requests a minute for each client. The others deny nothing.
const twoPolicies = byClient + `---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: watch, namespace: shop}
spec:
  mode: Shadow
  matches: [{methods: [POST]}]
  key: [{type: Principal, principal: {}}]
  onMissingKey: Skip
  limits: [{name: minute, algorithm: FixedWindow, threshold: 1, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: idle, namespace: shop}
spec:
  mode: Disabled
  key: [{type: Header, header: {name: X-Account}}]
  limits: [{name: minute, algorithm: FixedWindow, threshold: 1, window: 1h}]
`

func smallLog() []byte {
	var log bytes.Buffer
	for minute := range 3 {
		for i := range 14 - minute {
			method, status := "GET", 200
			if i < 2 {
				method, status = "POST", 429
			}
			fmt.Fprintf(&log, "192.0.2.1 - ann [01/Nov/2026:12:%02d:%02d +0000] \"%s / HTTP/1.1\" %d 1 \"-\" \"-\"\n", minute*2, i, method, status)
		}
		fmt.Fprintf(&log, "192.0.2.2 - - [01/Nov/2026:12:%02d:59 +0000] \"POST / HTTP/1.1\" 200 1 \"-\" \"-\"\n", minute*2)
	}
	log.WriteString("not a line\n")
	return log.Bytes()
}

const smallReport = `Requests:            42, 2026-11-01T12:00:00Z to 2026-11-01T12:04:59Z
Denied:              9 of 42 (21.43%)
Denied by the log:   6 of 42 (14.29%)
Unreadable:          1 lines; the first: line 43: has 3 fields, not 6

POLICY       MODE       KEYS   REQUESTS   DENIED   SHARE
shop/api     Enforce    2      42         9        21.43%
shop/idle    Disabled   0      0          0        0.00%
shop/watch   Shadow     1      6          5        83.33%

POLICY       KEY         REQUESTS   DENIED   SHARE
shop/api     192.0.2.1   39         9        23.08%
shop/watch   ann         6          5        83.33%

MINUTE              REQUESTS   DENIED   SHARE
2026-11-01T12:00Z   15         4        26.67%
2026-11-01T12:02Z   14         3        21.43%
2026-11-01T12:04Z   13         2        15.38%
`

func TestReport(t *testing.T) {
	g := NewWithT(t)
	report, err := replay(t, twoPolicies, backtest.FormatCombined, smallLog())
	g.Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	g.Expect(report.Write(&out)).To(Succeed())
	g.Expect(out.String()).To(Equal(smallReport))

	encoded, err := json.Marshal(report)
	g.Expect(err).NotTo(HaveOccurred())
	var decoded struct {
		Lines, SampledKeys int64
		Denied             struct{ Requests, Denied int64 }
		Minutes            []struct{ Start string }
	}
	g.Expect(json.Unmarshal(encoded, &decoded)).To(Succeed())
	g.Expect(decoded.Lines).To(Equal(int64(42)))
	g.Expect(decoded.SampledKeys).To(Equal(int64(1)))
	g.Expect(decoded.Denied.Denied).To(Equal(int64(9)))
	g.Expect(decoded.Minutes[0].Start).To(Equal("2026-11-01T12:00:00Z"))
}

// The drawing is XML, with a bar for each interval with requests.
func TestSVG(t *testing.T) {
	g := NewWithT(t)
	report, err := replay(t, twoPolicies, backtest.FormatCombined, smallLog())
	g.Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	g.Expect(report.WriteSVG(&out)).To(Succeed())
	bars := map[string]int{}
	for decoder := xml.NewDecoder(&out); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "rect" {
			bars[element.Attr[0].Value]++
		}
	}
	g.Expect(bars).To(Equal(map[string]int{"admitted": 1 + 33, "denied": 1 + 9}), "one is the legend")
}

// The log has no line in the format.
func TestNoLines(t *testing.T) {
	_, err := replay(t, byClient, backtest.FormatCombined, []byte("x\ny\n"))
	NewWithT(t).Expect(err).To(MatchError("no line is in the format combined: line 1: has 1 fields, not 6"))
}

// Solve finds the threshold that trying all of them finds.
func TestSolve(t *testing.T) {
	log := combinedLog(6_000, 100, 100)
	policies, err := testpolicy.Read(t.Context(), []byte(byClient))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	share := func(threshold int) float64 {
		report, err := replay(t, strings.Replace(byClient, "threshold: 10", fmt.Sprintf("threshold: %d", threshold), 1), backtest.FormatCombined, log)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return report.Denied.Share
	}
	for _, target := range []float64{0, 0.001, 0.2, 0.9} {
		g := NewWithT(t)
		report, err := backtest.Solve(t.Context(), policies, backtest.Goal{Limit: "api/minute", Target: target}, options(backtest.FormatCombined, log))
		g.Expect(err).NotTo(HaveOccurred())
		s := report.Solution
		g.Expect(share(int(s.Threshold))).To(And(Equal(s.Denied.Share), BeNumerically("<=", target)))
		if s.Threshold > 1 {
			g.Expect(share(int(s.Threshold) - 1)).To(And(Equal(s.DeniedBelow.Share), BeNumerically(">", target)))
		}
	}
	g := NewWithT(t)
	g.Expect(policies[0].Spec.Limits[0].Threshold).To(Equal(int64(10)), "the policy is unchanged")
}

func TestUnsolvable(t *testing.T) {
	log := combinedLog(1000, 100, 5)
	denied := strings.Replace(byClient, "spec:", "spec:\n  overrides: [{name: none, when: 'true', action: Deny}]", 1)
	twice := byClient + "---" + strings.Replace(byClient, "name: api", "name: other", 1)
	for name, tc := range map[string]struct{ policies, limit, want string }{
		"denied by another": {denied, "minute", "no threshold of limit minute denies at most 0.10%: with 1280, 1000 of 1000 (100.00%) are denied"},
		"no such limit":     {byClient, "hour", `no policy has the limit "hour"`},
		"two such limits":   {twice, "minute", `several limits have the name "minute": choose one of shop/api/minute, shop/other/minute`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			policies, err := testpolicy.Read(t.Context(), []byte(tc.policies))
			g.Expect(err).NotTo(HaveOccurred())
			_, err = backtest.Solve(t.Context(), policies, backtest.Goal{Limit: tc.limit, Target: 0.001}, options(backtest.FormatCombined, log))
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// Keys are shown as callers send them, and days begin by the zone's offset at the time of the log.
func TestOldLogsAndReadableKeys(t *testing.T) {
	run := func(spec, log string) *backtest.Report {
		g := NewWithT(t)
		policies, err := testpolicy.Read(t.Context(), []byte("apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: p, namespace: shop}\nspec: "+spec))
		g.Expect(err).NotTo(HaveOccurred())
		plans, err := backtest.Compile(policies)
		g.Expect(err).NotTo(HaveOccurred())
		report, err := backtest.Run(t.Context(), plans, backtest.Options{Source: backtest.Source{
			Format: backtest.FormatCombined, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log)), nil },
		}})
		g.Expect(err).NotTo(HaveOccurred())
		return report
	}
	keys := func(report *backtest.Report) (keys []string) {
		for _, k := range report.Keys {
			keys = append(keys, k.Key)
		}
		return keys
	}
	line := func(address, user, at, agent string) string {
		return fmt.Sprintf("%s - %s [%s +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"%s\"\n", address, user, at, agent)
	}
	g := NewWithT(t)
	const noon = "01/Nov/2026:12:00:00"
	g.Expect(keys(run(`{key: [{type: RemoteAddress, remoteAddress: {}}], limits: [{name: l, algorithm: SlidingLog, threshold: 1, window: 1m}]}`,
		line("2001:db8::1", "-", noon, "-")+line("2001:db8::2", "-", noon, "-")))).To(Equal([]string{"2001:db8::/64"}))
	g.Expect(keys(run(`{key: [{type: Principal, principal: {}}, {type: Header, header: {name: User-Agent}}], limits: [{name: l, algorithm: SlidingLog, threshold: 1, window: 1m}]}`,
		strings.Repeat(line("192.0.2.1", "a|b", noon, "c d")+line("192.0.2.1", "-", noon, "%20"), 2)))).To(ConsistOf(`a|b "c d"`, `- %20`))

	for _, year := range []string{"1999", "2021", "2026"} {
		at := func(clock string) string { return line("192.0.2.1", "-", "10/Jul/"+year+":"+clock+":00", "-") }
		report := run(`{limits: [{name: daily, algorithm: FixedWindow, threshold: 2, calendar: {period: Day, timeZone: Europe/Paris}}]}`,
			at("21:00")+at("21:30")+at("22:10")+at("22:20")+at("23:10"))
		g.Expect(report.Minutes).To(HaveLen(1), year)
		g.Expect(report.Minutes[0].Start.Format("15:04")).To(Equal("23:10"), "the day begins at 22:00Z in the summer of "+year)
	}
}
