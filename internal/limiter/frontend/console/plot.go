// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// The size of a plot in units of its drawing, which the page stretches.
const (
	plotWidth, plotHeight = 600, 100
	// plotBars is the number of bars: one a minute.
	plotBars = 60
)

// plot draws decisions over time as stacked bars.
type plot struct {
	// Allowed, Denied and Shadow are the outlines of all bars of a kind.
	Allowed, Denied, Shadow string
	// Slots are the texts of the bars.
	Slots []slot
	// Most is the number at the top.
	Most int64
	// Total has the sums.
	Total httptypes.DecisionCounts
	// Label describes the drawing for screen readers.
	Label string
	// Begin and End are times of day.
	Begin, End string
}

// slot is the area of one bar, with its numbers as text.
type slot struct {
	X    string
	Text string
}

// newPlot returns the plot of the samples, the last of which ends at the time.
func newPlot(s *httptypes.RateSamples, end time.Time, period int) *plot {
	p, bars := draw(s)
	length := time.Duration(len(s.Allowed)*period) * time.Second / plotBars
	begin := end.Add(-plotBars * length)
	p.Begin, p.End = clock(begin), clock(end)
	p.Label = fmt.Sprintf("Decisions in each minute from %s to %s UTC: %s allowed, %s denied, %s only in Shadow; at most %s in a minute.",
		p.Begin, p.End, number(p.Total.Allowed), number(p.Total.Denied), number(p.Total.ShadowDenied), number(p.Most))
	for i, b := range bars {
		p.Slots = append(p.Slots, slot{X: coordinate(barX(i)), Text: fmt.Sprintf("%s: %s allowed, %s denied, %s only in Shadow",
			clock(begin.Add(time.Duration(i)*length)), number(b.Allowed), number(b.Denied), number(b.ShadowDenied))})
	}
	return p
}

// sparkline returns a small plot without texts.
func sparkline(s *httptypes.RateSamples) *plot {
	p, _ := draw(s)
	return p
}

// barsOf adds the samples up.
func barsOf(s *httptypes.RateSamples) []httptypes.DecisionCounts {
	bars := make([]httptypes.DecisionCounts, plotBars)
	for i := range s.Allowed {
		b := &bars[i*plotBars/len(s.Allowed)]
		b.Allowed += s.Allowed[i]
		b.Denied += s.Denied[i]
		b.ShadowDenied += s.ShadowDenied[i]
	}
	return bars
}

func barX(i int) float64 { return float64(i) * plotWidth / plotBars }

// draw adds the samples up to bars, and draws these: denied below, then what Shadow would have denied, then allowed.
func draw(s *httptypes.RateSamples) (p *plot, bars []httptypes.DecisionCounts) {
	p, bars = &plot{}, barsOf(s)
	for _, b := range bars {
		p.Most = max(p.Most, b.Allowed+b.Denied+b.ShadowDenied)
		p.Total.Allowed += b.Allowed
		p.Total.Denied += b.Denied
		p.Total.ShadowDenied += b.ShadowDenied
	}
	var allowed, denied, shadow strings.Builder
	for i, b := range bars {
		bottom := float64(plotHeight)
		bottom = p.addBar(&denied, i, bottom, b.Denied)
		bottom = p.addBar(&shadow, i, bottom, b.ShadowDenied)
		p.addBar(&allowed, i, bottom, b.Allowed)
	}
	p.Allowed, p.Denied, p.Shadow = allowed.String(), denied.String(), shadow.String()
	return p, bars
}

// addBar adds the outline of a bar above bottom, and returns its top. Small numbers stay visible.
func (p *plot) addBar(path *strings.Builder, i int, bottom float64, n int64) (top float64) {
	if n == 0 {
		return bottom
	}
	height := max(float64(n)*plotHeight/float64(p.Most), 1.5)
	top = max(bottom-height, 0)
	_, _ = fmt.Fprintf(path, "M%s,%sV%sh8V%sz", coordinate(barX(i)+1), coordinate(bottom), coordinate(top), coordinate(bottom))
	return top
}

func coordinate(f float64) string { return strconv.FormatFloat(f, 'f', -1, 32) }

func clock(t time.Time) string { return t.UTC().Format("15:04") }
