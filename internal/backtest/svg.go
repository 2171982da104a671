// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// The size of the drawing, in pixels.
const (
	svgWidth, svgHeight = 960, 320
	svgLeft, svgRight   = 64, 16
	svgTop, svgBottom   = 48, 40
)

// svgStyle has colors for light and dark backgrounds.
const svgStyle = `text{font:13px system-ui,sans-serif;fill:#333}.title{font-weight:600}.axis{stroke:#999}` +
	`.admitted{fill:#8fb8de}.denied{fill:#c8452f}` +
	`@media(prefers-color-scheme:dark){text{fill:#ddd}.admitted{fill:#4a7cab}.denied{fill:#e2684f}}`

// WriteSVG draws the admitted and the denied requests over time.
func (r *Report) WriteSVG(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img"><title>Requests over time</title><style>%s</style>`+"\n",
		svgWidth, svgHeight, svgStyle)
	fmt.Fprintf(&out, `<text class="title" x="%d" y="20">Denied: %s</text>`+"\n", svgLeft, r.Denied.text())
	for i, class := range []string{"admitted", "denied"} {
		x := svgWidth - svgRight - 180 + i*95
		fmt.Fprintf(&out, `<rect class="%s" x="%d" y="9" width="12" height="12"/><text x="%d" y="20">%s</text>`+"\n", class, x, x+18, class)
	}
	r.line.draw(&out)
	out.WriteString("</svg>\n")
	_, err := w.Write(out.Bytes())
	return err
}

// draw draws the bars and the axes. The first level of each interval has its tally.
func (t *timeline) draw(out *bytes.Buffer) {
	most := int64(1)
	for i := range t.bins {
		most = max(most, t.bins[i][0].Requests)
	}
	const width, height = svgWidth - svgLeft - svgRight, svgHeight - svgTop - svgBottom
	bottom := float64(svgTop + height)
	bar := float64(width) / float64(max(len(t.bins), 1))
	rect := func(class string, i int, from, to int64) {
		scale := float64(height) / float64(most)
		if to > from {
			fmt.Fprintf(out, `<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`+"\n",
				class, float64(svgLeft)+float64(i)*bar, bottom-float64(to)*scale, bar, float64(to-from)*scale)
		}
	}
	for i := range t.bins {
		b := t.bins[i][0]
		rect("admitted", i, 0, b.Requests-b.Denied)
		rect("denied", i, b.Requests-b.Denied, b.Requests)
	}
	fmt.Fprintf(out, `<path class="axis" d="M%d %dV%.0fH%d" fill="none"/>`+"\n", svgLeft, svgTop, bottom, svgWidth-svgRight)
	perSecond := float64(most) / (float64(t.width) / second)
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end">%.3g/s</text>`+"\n", svgLeft-6, svgTop+5, perSecond)
	fmt.Fprintf(out, `<text x="%d" y="%.0f" text-anchor="end">0</text>`+"\n", svgLeft-6, bottom+4)
	end := t.start + int64(len(t.bins))*t.width
	fmt.Fprintf(out, `<text x="%d" y="%d">%s</text>`+"\n", svgLeft, svgHeight-14, axisTime(t.start))
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", svgWidth-svgRight, svgHeight-14, axisTime(end))
}

func axisTime(micros int64) string {
	return time.UnixMicro(micros).UTC().Format("2006-01-02 15:04:05 UTC")
}
