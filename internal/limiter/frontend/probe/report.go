// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

const (
	// maxAnswer bounds the answer, so that it fits into the buffers of proxies for headers.
	maxAnswer = 2048
	// maxText bounds each text that the client chooses.
	maxText = 128
)

// report returns what the replica saw.
func (p *Prober) report(r *Request, g Grant) *httptypes.ProbeReport {
	a := *r.Attributes
	a.Normalize()
	report := &httptypes.ProbeReport{
		Frontend: r.Frontend, Replica: shorten(p.options.ReplicaName), Method: shorten(a.Method), Host: shorten(a.Host), Path: shorten(a.Path),
		Domain: shorten(a.Domain), Principal: shorten(a.Principal), Policies: []string{}, Targets: []string{},
	}
	if a.RemoteAddress.IsValid() {
		report.RemoteAddress = a.RemoteAddress.String()
	}
	for _, t := range a.Targets {
		report.Targets = append(report.Targets, string(t))
	}
	a.Method = cmp.Or(g.Method, a.Method)
	snapshot := p.options.Snapshot()
	switch {
	case r.Problem != nil:
		report.Problem = shorten(r.Problem.Error())
	case snapshot == nil:
		report.Problem = limiter.ErrNotReady.Error()
	default:
		addPolicies(report, applying(snapshot, &a, r.Policies), g.Namespace)
	}
	return report
}

// applying returns the IDs of the policies that apply, in the order of the chain.
func applying(s *index.Snapshot, a *plan.Attributes, named []string) (ids []string) {
	for _, id := range named {
		if p := s.Lookup(id); p != nil && p.Mode != plan.ModeDisabled {
			ids = append(ids, id)
		}
	}
	if len(named) > 0 {
		return ids
	}
	for _, found := range s.Match(a) {
		if id := found.Plan.ID(); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// addPolicies adds the policies of the Namespace, or all if it is empty, and counts the others.
func addPolicies(report *httptypes.ProbeReport, ids []string, namespace string) {
	for _, id := range ids {
		if of, _ := plan.SplitID(id); namespace == "" || of == namespace {
			report.Policies = append(report.Policies, id)
		} else {
			report.OtherPolicies++
		}
	}
}

// shorten bounds the text.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText] + fmt.Sprintf("... (%d bytes)", len(text))
}

// encode returns the report as JSON in ASCII, of at most maxAnswer bytes: policies and targets that do not fit are only counted.
func encode(report *httptypes.ProbeReport) string {
	for {
		text, _ := json.Marshal(report) //nolint:errchkjson // plain data
		ascii := toASCII(string(text))
		switch {
		case len(ascii) <= maxAnswer:
			return ascii
		case len(report.Policies) > 0:
			report.Policies = report.Policies[:len(report.Policies)-1]
			report.OtherPolicies++
		case len(report.Targets) > 0:
			report.Targets = report.Targets[:len(report.Targets)-1]
			report.OtherTargets++
		default:
			report.Method, report.Host, report.Path, report.Principal, report.Domain = "", "", "", "", ""
			report.Problem = "the request is too large for a report"
		}
	}
}

// toASCII escapes all other characters of a JSON text.
func toASCII(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf && r != 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
