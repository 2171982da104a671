// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
)

// explanation is the answer of POST /v1/explain.
type explanation struct{ httptypes.Explanation }

// write writes the explanation as tables.
func (x *explanation) write(w io.Writer) error {
	p := connect.NewTable(w)
	p.Row("Decision:", x.decision())
	if d := x.Decision.Degraded; d != "" {
		p.Row("Degraded:", "Redis does not answer, so failureMode "+string(d)+" decides")
	}
	p.Section()
	for i := range x.Policies {
		policy(p, &x.Policies[i])
	}
	byName := x.RemoveByName()
	x.writeNearMisses(p)
	x.writeNotes(p, byName)
	return p.Flush()
}

// decision describes the decision in one line.
func (x *explanation) decision() string {
	d := &x.Decision
	text := "denied"
	if d.Allowed {
		text = "allowed"
	}
	text += ", " + string(d.Reason)
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
		text += "; retry after " + connect.Millis(d.RetryAfterMs)
	}
	return text
}

// policy writes a policy that applies.
func policy(t *connect.Table, e *httptypes.ExplainedPolicy) {
	t.Row("")
	t.Row("Policy:", e.Policy+modeText(e.Mode))
	t.Row("Applies by:", appliesBy(e.Match))
	t.Row("Key:", keyText(e.Key))
	t.Selected(e.Override, e.Action, e.Group, e.Exception)
	t.Row("Verdict:", verdictText(e))
	if e.Blocked {
		t.Row("Blocked:", connect.BlockText(true, e.BlockedBy, e.BlockLeftMs))
	}
	t.Section()
	if len(e.Limits) == 0 {
		return
	}
	t.Row("")
	t.Row("LIMIT", "ALGORITHM", "WINDOW", "USED", "THRESHOLD", "REMAINING", "RETRY AFTER")
	for i := range e.Limits {
		l := &e.Limits[i]
		t.Row(l.Limit, string(l.Algorithm), cmp.Or(l.Window, l.Calendar, "at once"), connect.Number(l.Used), connect.Number(l.Threshold), connect.Number(l.Remaining), connect.RetryAfter(&l.LimitState))
	}
	t.Section()
}

// modeText describes a mode in which a policy denies nothing.
func modeText(mode plan.Mode) string {
	if mode == plan.ModeEnforce {
		return ""
	}
	return " (mode " + string(mode) + ": denies no request)"
}

func verdictText(e *httptypes.ExplainedPolicy) string {
	text := "denies, " + string(e.Reason)
	if e.Allowed {
		text = "allows, " + string(e.Reason)
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
func keyText(parts []httptypes.ExplainedKeyPart) string {
	if len(parts) == 0 {
		return "none: every request counts together"
	}
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = strings.TrimSpace(strings.TrimSpace(string(part.Type)+" "+message.Printable(part.Name)) + " " + strconv.Quote(part.Value))
	}
	return strings.Join(texts, ", ")
}

func (x *explanation) writeNearMisses(p *connect.Table) {
	if len(x.NearMisses) == 0 {
		return
	}
	p.Row("")
	p.Row("NEAR MISS", "WHY IT DOES NOT APPLY")
	for i := range x.NearMisses {
		p.Row(x.NearMisses[i].Policy, why(&x.NearMisses[i]))
	}
	p.Section()
}

// why returns why the policy does not apply.
func why(m *httptypes.NearMiss) string {
	switch m.Reason {
	case limiter.NearDisabled:
		return appliesBy(m.Match) + " matches, but the mode is Disabled"
	case limiter.NearNotLoaded:
		return "not loaded: " + message.Printable(m.Detail)
	case limiter.NearMismatch:
		text := fmt.Sprintf("%s.%s wants %s, the request has %s", appliesBy(m.Match), m.Field, quoted(m.Wants, " or "), quoted(m.Got, ", "))
		if m.Unverified {
			text += "; its expression was not evaluated"
		}
		return text
	default: // of a later Weir
		return strings.TrimSpace(message.Printable(string(m.Reason) + " " + m.Detail))
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

// writeNotes counts what the tables omit, with the policies without matches.
func (x *explanation) writeNotes(p *connect.Table, byName int) {
	note := func(n int, text string) {
		if n > 0 {
			p.Row(connect.Number(int64(n)) + " " + text)
		}
	}
	if byName+x.HiddenPolicies+x.HiddenNearMisses+x.MoreNearMisses > 0 {
		p.Row("")
	}
	note(byName, "policies without matches apply only to checks that name them.")
	note(x.HiddenPolicies, "more policies apply, in Namespaces that you may not read.")
	note(x.HiddenNearMisses, "near misses are in Namespaces that you may not read.")
	note(x.MoreNearMisses, "more near misses are not listed.")
	p.Section()
}
