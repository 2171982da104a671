// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/message"
)

// Report is what the policies would have denied.
type Report struct {
	// Lines are the requests of the log; Unreadable the lines of another format, Late the lines that came
	// more than 30 s after later ones.
	Lines      int64  `json:"lines"`
	Unreadable int64  `json:"unreadable"`
	Problem    string `json:"problem,omitempty"` // of the first unreadable line
	Late       int64  `json:"late"`
	// From and To are the times of the first and the last request.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// SampledKeys is n if one of n keys was counted, chosen by their hash; 1 is all. The tallies
	// below describe the sample.
	SampledKeys int64 `json:"sampledKeys"`
	// Denied is what the policies with mode Enforce deny together.
	Denied Row `json:"denied"`
	// DeniedByLog is what the log itself denied, with status 429.
	DeniedByLog Row         `json:"deniedByLog"`
	Policies    []PolicyRow `json:"policies"`
	// Keys and Minutes are those with the most denied requests.
	Keys    []KeyRow    `json:"keys"`
	Minutes []MinuteRow `json:"minutes"`
	// Solution is the result of Solve.
	Solution *Solution `json:"solution,omitempty"`

	line timeline
}

// Row is a tally with the share that was denied, 0..1.
type Row struct {
	tally
	Share float64 `json:"share"`
}

// PolicyRow is what one policy denies. In mode Shadow it would deny that, in Disabled it does not
// apply.
type PolicyRow struct {
	Policy string    `json:"policy"`
	Mode   plan.Mode `json:"mode"`
	Keys   int       `json:"keys"`
	Row
}

// KeyRow is what a policy denies of one key: its parts with spaces between them, in quotes if they have spaces. A missing
// part is "-".
type KeyRow struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	Row
}

// MinuteRow counts the requests of the minute that begins at Start.
type MinuteRow struct {
	Start time.Time `json:"start"`
	Row
}

// top is the number of keys and of minutes in a report.
const top = 10

func row(t tally) Row { return Row{tally: t, Share: t.Share()} }

// byDenied orders rows by the number of denied requests.
func byDenied(a, b Row) int {
	return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Share, a.Share))
}

func (r *replay) report(lines *scanner, sorted *order) *Report {
	c, sample := &r.count, r.recorder.sample
	report := &Report{
		Lines: c.lines, Unreadable: lines.unreadable, Late: sorted.late, SampledKeys: 1 << sample,
		From: time.UnixMicro(c.from).UTC(), To: time.UnixMicro(c.to).UTC(),
		Denied:      row(c.total.from(sample)),
		DeniedByLog: row(tally{Requests: c.lines, Denied: c.tooMany}),
		Policies:    []PolicyRow{}, Keys: []KeyRow{}, Minutes: []MinuteRow{},
		line: c.line,
	}
	if lines.first != nil {
		report.Problem = lines.first.Error()
	}
	for i := range report.line.bins {
		report.line.bins[i][0] = report.line.bins[i].from(sample)
	}
	for _, id := range slices.Sorted(maps.Keys(r.recorder.policies)) {
		p := r.recorder.policies[id]
		report.Policies = append(report.Policies, PolicyRow{Policy: id, Mode: p.plan.Mode, Keys: len(p.keys), Row: row(p.total.from(sample))})
		for key, t := range p.keys {
			if t.Denied > 0 {
				report.Keys = append(report.Keys, KeyRow{Policy: id, Key: keyText(key), Row: row(*t)})
			}
		}
	}
	slices.SortFunc(report.Keys, func(a, b KeyRow) int {
		return cmp.Or(byDenied(a.Row, b.Row), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key))
	})
	report.Keys = slices.Clone(report.Keys[:min(top, len(report.Keys))])
	for minute, of := range c.minutes {
		if t := of.from(sample); t.Denied > 0 {
			report.Minutes = append(report.Minutes, MinuteRow{Start: time.Unix(minute*60, 0).UTC(), Row: row(t)})
		}
	}
	slices.SortFunc(report.Minutes, func(a, b MinuteRow) int {
		return cmp.Or(byDenied(a.Row, b.Row), a.Start.Compare(b.Start))
	})
	report.Minutes = report.Minutes[:min(top, len(report.Minutes))]
	return report
}

func keyText(key store.Key) string {
	parts := key.Parts()
	for i, part := range parts {
		switch {
		case part == "":
			parts[i] = "-"
		case part == "-" || strings.ContainsAny(part, ` "`):
			parts[i] = strconv.Quote(part)
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	var out bytes.Buffer
	table := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	line := func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				_, _ = fmt.Fprint(table, "\t")
			}
			_, _ = fmt.Fprint(table, cell)
		}
		_, _ = fmt.Fprintln(table)
	}
	line("Requests:", fmt.Sprintf("%d, %s to %s", r.Lines, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339)))
	line("Denied:", r.Denied.text())
	line("Denied by the log:", r.DeniedByLog.text())
	r.writeCaveats(line)
	line()
	line("POLICY", "MODE", "KEYS", "REQUESTS", "DENIED", "SHARE")
	for _, p := range r.Policies {
		line(p.Policy, p.Mode, p.Keys, p.Requests, p.Denied, percent(p.Share))
	}
	if len(r.Keys) > 0 {
		line()
		line("POLICY", "KEY", "REQUESTS", "DENIED", "SHARE")
	}
	for _, k := range r.Keys {
		line(k.Policy, message.Printable(k.Key), k.Requests, k.Denied, percent(k.Share))
	}
	if len(r.Minutes) > 0 {
		line()
		line("MINUTE", "REQUESTS", "DENIED", "SHARE")
	}
	for _, m := range r.Minutes {
		line(m.Start.Format("2006-01-02T15:04Z07:00"), m.Requests, m.Denied, percent(m.Share))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}

// writeCaveats writes what limits the accuracy of the report.
func (r *Report) writeCaveats(line func(cells ...any)) {
	if r.SampledKeys > 1 {
		line("Sampled:", fmt.Sprintf("1 of %d keys, by hash: the tallies describe the sample", r.SampledKeys))
	}
	if r.Unreadable > 0 {
		line("Unreadable:", fmt.Sprintf("%d lines; the first: %s", r.Unreadable, message.Printable(r.Problem)))
	}
	if r.Late > 0 {
		line("Late:", fmt.Sprintf("%d lines, counted at the earliest time that was still open", r.Late))
	}
	if s := r.Solution; s != nil {
		line("Solution:", s.text())
	}
}

func (r Row) text() string {
	return fmt.Sprintf("%d of %d (%s)", r.Denied, r.Requests, percent(r.Share))
}

// percent formats a share with four digits, so that no share but 0 is shown as zero.
func percent(share float64) string {
	text := fmt.Sprintf("%.2f%%", share*100)
	if share > 0 && share < 0.001 {
		text = fmt.Sprintf("%.4g%%", share*100)
	}
	return text
}
