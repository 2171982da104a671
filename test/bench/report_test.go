// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// section is one section of the report.
type section struct {
	title     string
	text      bytes.Buffer
	scenarios []*scenario
}

// add appends the table of the scenario.
func (s *section) add(measured *scenario) {
	s.scenarios = append(s.scenarios, measured)
	s.table(measured.caption(), measured.header(), measured.rows()...)
}

// print only prints the table of the scenario.
func (s *section) print(measured *scenario) {
	s.scenarios = append(s.scenarios, measured)
	_, _ = os.Stdout.WriteString(tableText(measured.caption(), measured.header(), measured.rows()...))
}

// table appends a table and prints it.
func (s *section) table(caption string, header []string, rows ...[]string) {
	s.write(tableText(caption, header, rows...))
}

func tableText(caption string, header []string, rows ...[]string) string {
	var text bytes.Buffer
	if caption != "" {
		fmt.Fprintf(&text, "\n%s\n", caption)
	}
	fmt.Fprintf(&text, "\n| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, row := range rows {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
	}
	return text.String()
}

// note appends a paragraph and prints it.
func (s *section) note(text string) { s.write("\n" + text + "\n") }

func (s *section) write(text string) {
	if s.text.Len() == 0 {
		text = fmt.Sprintf("### %s\n\nMeasured on %s: %d cores (%s), rounds: %d, %s each.\n%s",
			s.title, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), processor(), *rounds, *duration, text)
	}
	s.text.WriteString(text)
	_, _ = os.Stdout.WriteString(text)
}

// processor returns the name of the CPU.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	name := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text)
	if name == nil {
		return "unknown CPU"
	}
	return string(name[1])
}

func (s *scenario) caption() string {
	if s.callers == 0 {
		return s.name
	}
	return fmt.Sprintf("%s, callers: %d", s.name, s.callers)
}

func (*scenario) header() []string {
	return []string{"target", "share of the first", "calls/s", "p50", "p99", "p99.9", "CPU per call", "Redis CPU per call"}
}

// rows returns one row per load. The share is the throughput in relation to the first load in
// the same round.
func (s *scenario) rows() [][]string {
	rows := make([][]string, len(s.loads))
	for i, l := range s.loads {
		median := func(of func(*sample) float64) float64 { return medianOf(s.samples[i], of) }
		rows[i] = []string{
			l.name, spread(s.shares(i), "%.2f"), fmt.Sprintf("%.0f", median((*sample).perSecond)),
			inMillis(median(latency(0.5))), inMillis(median(latency(0.99))), inMillis(median(latency(0.999))),
			inMicros(median(serverCPU)), inMicros(median(redisCPU)),
		}
	}
	return rows
}

// shares returns the throughput of a load in relation to the first one, by round.
func (s *scenario) shares(at int) []float64 {
	shares := make([]float64, len(s.samples[at]))
	for round := range shares {
		shares[round] = s.samples[at][round].perSecond() / s.samples[0][round].perSecond()
	}
	return shares
}

func latency(share float64) func(*sample) float64 {
	return func(m *sample) float64 { return float64(m.percentile(share)) }
}

func serverCPU(m *sample) float64 { return float64(m.perCall(m.server)) }
func redisCPU(m *sample) float64  { return float64(m.perCall(m.redis)) }

// spread formats the median, the lowest and the highest value.
func spread(values []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+" to "+format+")", middle(values), slices.Min(values), slices.Max(values))
}

func medianOf(samples []*sample, of func(*sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, m := range samples {
		values[i] = of(m)
	}
	return middle(values)
}

// middle returns the median.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func inMillis(nanoseconds float64) string { return fmt.Sprintf("%.2f ms", nanoseconds/1e6) }

func inMicros(nanoseconds float64) string {
	if nanoseconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f us", nanoseconds/1e3)
}

// publish writes the section into the folder's performance.md, and the plot of the first
// section beside it; "" writes nothing.
func (s *section) publish(tb testing.TB, folder string) {
	tb.Helper()
	if folder == "" {
		return
	}
	updatePage(tb, folder, s)
	if s.title == grpcTitle {
		writePlot(tb, folder, s.scenarios)
	}
}
