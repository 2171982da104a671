// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	limits "github.com/weir-dev/weir/internal/limiter/answer"
)

// explanation is the answer of POST /v1/explain.
type explanation struct {
	Decision struct {
		Allowed                 bool
		Reason                  string
		Policy, Limit, Override string
		RetryAfterMs            int64
		Degraded                string
	}
	Policies         []explainedPolicy
	HiddenPolicies   int
	NearMisses       []nearMiss
	HiddenNearMisses int
	MoreNearMisses   int
}

type explainedPolicy struct {
	Policy, Mode     string
	Match            *int
	Allowed          bool
	Reason           string
	Limit            string
	Key              []explainedKeyPart
	Override, Action string
	Blocked          bool
	BlockedBy        string
	BlockLeftMs      int64
	Limits           []explainedLimit
}

type explainedKeyPart struct{ Type, Name, Value string }

type explainedLimit struct {
	limits.LimitState

	Algorithm, Window, Calendar string
}

type nearMiss struct {
	Policy, Reason string
	Match          *int
	Field          string
	Wants, Got     []string
	Detail         string
	Unverified     bool
}

// printer writes tables. Its first error stays.
type printer struct {
	table *tabwriter.Writer
	err   error
}

func newPrinter(w io.Writer) *printer {
	return &printer{table: tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)}
}

func (p *printer) row(cells ...string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.table, strings.Join(cells, "\t"))
	}
}

// end ends a table, so that the next has widths of its own.
func (p *printer) end() {
	if p.err == nil {
		p.err = p.table.Flush()
	}
}

// write writes the explanation as tables.
func (x *explanation) write(w io.Writer) error {
	p := newPrinter(w)
	p.row("Decision:", x.decision())
	if d := x.Decision.Degraded; d != "" {
		p.row("Degraded:", "Redis does not answer, so failureMode "+d+" decides")
	}
	p.end()
	for i := range x.Policies {
		x.Policies[i].write(p)
	}
	x.writeNearMisses(p)
	x.writeHidden(p)
	return p.err
}

// decision describes the decision in one line.
func (x *explanation) decision() string {
	d := &x.Decision
	text := "denied"
	if d.Allowed {
		text = "allowed"
	}
	text += ", " + d.Reason
	if d.Policy != "" {
		text += ", by " + d.Policy
	}
	if d.Override != "" {
		text += ", override " + d.Override
	}
	if d.Limit != "" {
		text += ", limit " + d.Limit
	}
	if !d.Allowed && d.RetryAfterMs > 0 {
		text += "; retry after " + millis(d.RetryAfterMs)
	}
	return text
}

func (e *explainedPolicy) write(p *printer) {
	p.row("")
	p.row("Policy:", e.Policy+e.mode())
	p.row("Applies by:", appliesBy(e.Match))
	p.row("Key:", keyText(e.Key))
	if e.Override != "" {
		p.row("Override:", e.Override+" ("+e.Action+")")
	}
	p.row("Verdict:", e.verdict())
	if e.Blocked {
		p.row("Blocked:", (&keyState{Blocked: true, BlockedBy: e.BlockedBy, BlockLeftMs: e.BlockLeftMs}).block())
	}
	p.end()
	if len(e.Limits) == 0 {
		return
	}
	p.row("")
	p.row("LIMIT", "ALGORITHM", "WINDOW", "USED", "THRESHOLD", "REMAINING", "RETRY AFTER")
	for i := range e.Limits {
		l := &e.Limits[i]
		p.row(l.Limit, l.Algorithm, cmp.Or(l.Window, l.Calendar, "at once"), number(l.Used), number(l.Threshold), number(l.Remaining), retryAfter(&l.LimitState))
	}
	p.end()
}

// mode describes a mode in which the policy denies nothing.
func (e *explainedPolicy) mode() string {
	if e.Mode == "Enforce" {
		return ""
	}
	return " (mode " + e.Mode + ": denies no request)"
}

func (e *explainedPolicy) verdict() string {
	text := "denies, " + e.Reason
	if e.Allowed {
		text = "allows, " + e.Reason
	}
	if e.Limit != "" {
		text += ", by limit " + e.Limit
	}
	return text
}

func appliesBy(match *int) string {
	if match == nil {
		return "name"
	}
	return fmt.Sprintf("spec.matches[%d]", *match)
}

// keyText returns the parts of a key. Values are quoted: they may hold anything.
func keyText(parts []explainedKeyPart) string {
	if len(parts) == 0 {
		return "none: every request counts together"
	}
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = strings.TrimSpace(strings.TrimSpace(part.Type+" "+printable(part.Name)) + " " + strconv.Quote(part.Value))
	}
	return strings.Join(texts, ", ")
}

func (x *explanation) writeNearMisses(p *printer) {
	if len(x.NearMisses) == 0 {
		return
	}
	p.row("")
	p.row("NEAR MISS", "WHY IT DOES NOT APPLY")
	for i := range x.NearMisses {
		p.row(x.NearMisses[i].Policy, x.NearMisses[i].why())
	}
	p.end()
}

func (m *nearMiss) why() string {
	switch m.Reason {
	case "Disabled":
		return appliesBy(m.Match) + " matches, but the mode is Disabled"
	case "NotLoaded":
		return "not loaded: " + printable(m.Detail)
	case "ByNameOnly":
		return "has no matches: only checks that name it"
	case "Mismatch":
		text := fmt.Sprintf("%s.%s wants %s, the request has %s", appliesBy(m.Match), m.Field, quoted(m.Wants, " or "), quoted(m.Got, ", "))
		if m.Unverified {
			text += "; its expression was not evaluated"
		}
		return text
	default: // of a later Weir
		return strings.TrimSpace(printable(m.Reason + " " + m.Detail))
	}
}

// quoted returns the values in quotes.
func quoted(values []string, separator string) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = strconv.Quote(value)
	}
	return cmp.Or(strings.Join(texts, separator), "none")
}

func (x *explanation) writeHidden(p *printer) {
	note := func(n int, text string) {
		if n > 0 {
			p.row(number(int64(n)) + " " + text)
		}
	}
	if x.HiddenPolicies+x.HiddenNearMisses+x.MoreNearMisses > 0 {
		p.row("")
	}
	note(x.HiddenPolicies, "more policies apply, in Namespaces that you may not read.")
	note(x.HiddenNearMisses, "near misses are in Namespaces that you may not read.")
	note(x.MoreNearMisses, "more near misses are not listed.")
	p.end()
}
