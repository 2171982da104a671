// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// results collects the scenarios by section.
type results struct {
	sections []section
}

type section struct {
	title     string
	scenarios []*scenario
}

// add appends the scenario to its section and prints it.
func (r *results) add(title string, s *scenario) {
	if n := len(r.sections); n == 0 || r.sections[n-1].title != title {
		r.sections = append(r.sections, section{title: title})
	}
	last := &r.sections[len(r.sections)-1]
	last.scenarios = append(last.scenarios, s)
	var text bytes.Buffer
	fmt.Fprintf(&text, "\n%s: ", title)
	s.write(&text)
	_, _ = text.WriteTo(os.Stdout)
}

// publish writes the tables and the plot into the folder; "" writes nothing.
func (r *results) publish(tb testing.TB, folder string) {
	tb.Helper()
	if folder == "" {
		return
	}
	g := NewWithT(tb)
	var text bytes.Buffer
	fmt.Fprintf(&text, "Measured on %s: %d cores (%s), %d rounds of %s per scenario.\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), processor(), *rounds, *duration)
	for _, section := range r.sections {
		fmt.Fprintf(&text, "\n### %s\n", section.title)
		for _, s := range section.scenarios {
			s.write(&text)
		}
	}
	page := filepath.Join(folder, "performance.md")
	old, err := os.ReadFile(page)
	g.Expect(err).NotTo(HaveOccurred())
	between := regexp.MustCompile(`(?s)(<!-- bench-compare -->\n).*(<!-- /bench-compare -->)`)
	g.Expect(between.Match(old)).To(BeTrue(), "%s has the markers", page)
	text.WriteByte('\n')
	filled := between.ReplaceAllFunc(old, func(match []byte) []byte {
		parts := between.FindSubmatch(match)
		return slices.Concat(parts[1], text.Bytes(), parts[2])
	})
	g.Expect(os.WriteFile(page, filled, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(folder, "performance.svg"), r.plot(), 0o600)).To(Succeed())
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

// write writes one table row per target. The share is the throughput in relation to the
// first target in the same round.
func (s *scenario) write(w *bytes.Buffer) {
	fmt.Fprintf(w, "\n%s, callers: %d\n\n", s.name, s.callers)
	w.WriteString("| target | share of the first | calls/s | p50 | p99 | p99.9 | CPU per call | Redis CPU per call |\n")
	w.WriteString("|---|---|---|---|---|---|---|---|\n")
	for i, t := range s.targets {
		share := s.shares(i)
		median := func(of func(*sample) float64) float64 { return medianOf(s.samples[i], of) }
		fmt.Fprintf(w, "| %s | %.2f (%.2f to %.2f) | %.0f | %s | %s | %s | %s | %s |\n",
			t.name, share[len(share)/2], share[0], share[len(share)-1], median((*sample).perSecond),
			inMillis(median(latency(0.5))), inMillis(median(latency(0.99))), inMillis(median(latency(0.999))),
			inMicros(median(func(m *sample) float64 { return float64(m.perCall(m.server)) })),
			inMicros(median(func(m *sample) float64 { return float64(m.perCall(m.redis)) })))
	}
}

// shares returns the sorted throughput of a target in relation to the first one, by round.
func (s *scenario) shares(target int) []float64 {
	shares := make([]float64, len(s.samples[target]))
	for round := range shares {
		shares[round] = s.samples[target][round].perSecond() / s.samples[0][round].perSecond()
	}
	slices.Sort(shares)
	return shares
}

func latency(share float64) func(*sample) float64 {
	return func(m *sample) float64 { return float64(m.percentile(share)) }
}

func medianOf(samples []*sample, of func(*sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, m := range samples {
		values[i] = of(m)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func inMillis(nanoseconds float64) string { return fmt.Sprintf("%.2f ms", nanoseconds/1e6) }

func inMicros(nanoseconds float64) string {
	if nanoseconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f us", nanoseconds/1e3)
}

// plot draws throughput and p99 against callers for the first workload over gRPC, as SVG.
func (r *results) plot() []byte {
	const width, height = 720, 300
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	first := r.sections[0].scenarios[:countOf(r.sections[0].scenarios)]
	chart(&out, 0, "calls per second", first, (*sample).perSecond, func(v float64) string { return fmt.Sprintf("%.0f", v) })
	chart(&out, width/2, "p99", first, latency(0.99), inMillis)
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// countOf returns the number of scenarios with the same workload as the first.
func countOf(scenarios []*scenario) int {
	n := 0
	for n < len(scenarios) && scenarios[n].name == scenarios[0].name {
		n++
	}
	return n
}

var colors = []string{"#888888", "#4477aa", "#cc6677", "#228833", "#aa3377"}

// chart draws one line per target; the x axis is logarithmic.
func chart(out *bytes.Buffer, left int, title string, scenarios []*scenario, of func(*sample) float64, format func(float64) string) {
	const top, bottom, width, margin = 30, 250, 270, 60
	x := func(callers int) float64 { return float64(left+margin) + math.Log2(float64(callers))/8*width }
	highest := 0.0
	for _, s := range scenarios {
		for i := range s.targets {
			highest = max(highest, medianOf(s.samples[i], of))
		}
	}
	y := func(value float64) float64 { return bottom - value/highest*(bottom-top) }
	fmt.Fprintf(out, `<text x="%d" y="18" font-weight="bold">%s</text>`+"\n", left+margin, title)
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left+margin-4, top+4, format(highest))
	fmt.Fprintf(out, `<path d="M%d %d V%d H%d" fill="none" stroke="black"/>`+"\n", left+margin, top, bottom, left+margin+width)
	for _, s := range scenarios {
		fmt.Fprintf(out, `<text x="%.0f" y="%d" text-anchor="middle">%d</text>`+"\n", x(s.callers), bottom+16, s.callers)
	}
	for i, t := range scenarios[0].targets {
		points := make([]string, len(scenarios))
		for j, s := range scenarios {
			points[j] = fmt.Sprintf("%.1f,%.1f", x(s.callers), y(medianOf(s.samples[i], of)))
		}
		fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colors[i%len(colors)])
		fmt.Fprintf(out, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", left+margin+8+i*110, bottom+36, colors[i%len(colors)], shortName(t.name))
	}
}

// shortName fits a target's name into the legend.
func shortName(name string) string {
	name, _, _ = strings.Cut(name, " and ")
	return strings.ReplaceAll(name, ", ", ": ")
}
