// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// plotReplicas draws what replicas cost against their number, as SVG.
func plotReplicas(curve []point) []byte {
	const width, height = 720, 300
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	chart(&out, 0, "idle: CPU of Redis, % of a core", curve, func(p point) float64 { return p.cpu })
	chart(&out, width/2, "an edit until all have loaded it, p99, ms", curve, func(p point) float64 { return p.loadedP99 })
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// chart draws one line; both axes are logarithmic.
func chart(out *bytes.Buffer, left int, title string, curve []point, of func(point) float64) {
	const top, bottom, width, margin = 40, 250, 270, 50
	lowest, highest := math.MaxFloat64, 0.0
	for _, p := range curve {
		lowest, highest = min(lowest, of(p)), max(highest, of(p))
	}
	from, to := math.Floor(math.Log10(lowest)), math.Ceil(math.Log10(highest))
	x := func(replicas int) float64 { return float64(left+margin) + math.Log10(float64(replicas))/3*width }
	y := func(value float64) float64 { return bottom - (math.Log10(value)-from)/max(1, to-from)*(bottom-top) }
	fmt.Fprintf(out, `<text x="%d" y="18" font-weight="bold">%s</text>`+"\n", left+margin, title)
	for power := from; power <= to; power++ {
		fmt.Fprintf(out, `<text x="%d" y="%.0f" text-anchor="end">%g</text>`+"\n", left+margin-4, y(math.Pow(10, power))+4, math.Pow(10, power))
	}
	fmt.Fprintf(out, `<path d="M%d %d V%d H%d" fill="none" stroke="black"/>`+"\n", left+margin, top, bottom, left+margin+width)
	points := make([]string, len(curve))
	for i, p := range curve {
		points[i] = fmt.Sprintf("%.1f,%.1f", x(p.replicas), y(of(p)))
		fmt.Fprintf(out, `<text x="%.0f" y="%d" text-anchor="middle">%d</text>`+"\n", x(p.replicas), bottom+16, p.replicas)
		fmt.Fprintf(out, `<text x="%.0f" y="%.0f" text-anchor="middle" fill="#4477aa">%.3g</text>`+"\n", x(p.replicas), y(of(p))-8, of(p))
	}
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="middle">replicas</text>`+"\n", left+margin+width/2, bottom+36)
	fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="#4477aa" stroke-width="2"/>`+"\n", strings.Join(points, " "))
}
