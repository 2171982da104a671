// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// writePlot writes performance.svg into the folder.
func writePlot(tb testing.TB, folder string, scenarios []*scenario) {
	tb.Helper()
	NewWithT(tb).Expect(os.WriteFile(filepath.Join(folder, "performance.svg"), plot(scenarios), 0o600)).To(Succeed())
}

// plot draws throughput and p99 against callers for the first workload over gRPC, as SVG.
func plot(scenarios []*scenario) []byte {
	const width, height = 720, 300
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	first := scenarios[:countOf(scenarios)]
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

// chart draws one line per load; the x axis is logarithmic.
func chart(out *bytes.Buffer, left int, title string, scenarios []*scenario, of func(*sample) float64, format func(float64) string) {
	const top, bottom, width, margin = 30, 250, 270, 60
	x := func(callers int) float64 { return float64(left+margin) + math.Log2(float64(callers))/8*width }
	highest := 0.0
	for _, s := range scenarios {
		for i := range s.loads {
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
	for i, l := range scenarios[0].loads {
		points := make([]string, len(scenarios))
		for j, s := range scenarios {
			points[j] = fmt.Sprintf("%.1f,%.1f", x(s.callers), y(medianOf(s.samples[i], of)))
		}
		fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colors[i%len(colors)])
		fmt.Fprintf(out, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", left+margin+8+i*110, bottom+36, colors[i%len(colors)], shortName(l.name))
	}
}

// shortName fits a load's name into the legend.
func shortName(name string) string {
	name, _, _ = strings.Cut(name, " and ")
	return strings.ReplaceAll(name, ", ", ": ")
}
