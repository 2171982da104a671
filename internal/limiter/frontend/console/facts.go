// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// facts is a plan as text.
type facts struct {
	Mode      string
	Rows      []fact
	Matches   [][]matchField
	Key       []string
	Limits    []limitFacts
	Overrides []overrideFacts
	// ReadsCaller is true if an override selects by the client address or the principal.
	ReadsCaller bool
}

type fact struct{ Name, Value string }

// matchField is a field of a match with its values.
type matchField struct {
	Name   string
	Values []string
}

type limitFacts struct {
	Name, Algorithm, Window, Details string
	Threshold                        int64
}

type overrideFacts struct {
	Name, Action   string
	Keys, Networks []string
	Groups         []string
	More           int // selected keys and networks beyond those
	When           string
	Limits         []string
}

// shownSelected is how many keys and networks of an override are shown.
const shownSelected = 10

// addSlices describes the slices of the policy, if it has any.
func (f *facts) addSlices(s plan.Slices) {
	if s.Allowed() {
		f.addRow("Slices", fmt.Sprintf("replicas take up to %d%% of a quota in advance, for at most %s", s.MaxPercent, millis(s.MaxAgeMillis)))
	}
}

// factsOf describes the plan. Unless reveal is true, it masks the values of headers, cookies and query parameters.
func factsOf(p *plan.Plan, reveal bool) *facts {
	f := &facts{Mode: string(p.Mode)}
	f.addRow("Counts", map[plan.Counting]string{
		plan.CountAdmitted: "only requests that are admitted", plan.CountAttempts: "every attempt",
	}[p.Counting])
	f.addRow("Denies", map[plan.DenyWhen]string{
		plan.ThresholdExceeded: "when the threshold is exceeded", plan.ThresholdReached: "when the threshold is reached",
	}[p.DenyWhen])
	f.addRow("Missing key", map[plan.OnMissingKey]string{
		plan.MissingKeyShare: "shares one budget", plan.MissingKeySkip: "is not limited", plan.MissingKeyDeny: "is denied",
	}[p.OnMissingKey])
	f.addRow("Without Redis", map[plan.FailureMode]string{
		plan.FailOpen: "admits (Open)", plan.FailClosed: "denies (Closed)", plan.FailLocal: "limits in each replica (Local)",
	}[p.FailureMode])
	if r := p.Reservations; r.Allowed() {
		f.addRow("Reservations", fmt.Sprintf("for at most %s, at most %d open for each key", millis(r.MaxTTLMillis), r.MaxOpen))
		if r.Cost != "" {
			f.addRow("Cost", r.Cost)
		}
		if r.BlockOnCommit {
			f.addRow("Blocks", "on commits that fill a limit")
		}
	}
	f.addSlices(p.Slices)
	if from := p.LateCharges.From; from > 0 {
		f.addRow("Late charges", fmt.Sprintf("from %d hits of Envoy", from))
	}
	for i := range p.Candidates {
		f.addRow("Candidate of "+p.Candidates[i].Name, changeText(&p.Candidates[i]))
	}
	f.addRow("Denial", strings.TrimSuffix(p.Denial.Code+": "+p.Denial.Message, ": "))
	for i := range p.Matches {
		f.Matches = append(f.Matches, matchFieldsOf(&p.Matches[i]))
	}
	for i := range p.Key {
		f.Key = append(f.Key, keyPartText(&p.Key[i]))
	}
	for i := range p.Limits {
		f.Limits = append(f.Limits, limitFactsOf(&p.Limits[i]))
	}
	for i := range p.Overrides {
		o := &p.Overrides[i]
		f.Overrides = append(f.Overrides, overrideFactsOf(p, o, reveal))
		f.ReadsCaller = f.ReadsCaller || len(o.CIDRs) > 0 || o.When != ""
	}
	return f
}

func (f *facts) addRow(name, value string) { f.Rows = append(f.Rows, fact{name, value}) }

// matchFieldsOf returns the fields that the match has.
func matchFieldsOf(m *plan.Match) []matchField {
	fields := []matchField{
		{"Gateways, routes", plan.TargetTexts(m.Targets)},
		{"Hosts", m.Hosts},
		{"Methods", m.Methods},
		{"Paths", m.Paths},
		{"Domain", []string{m.Domain}},
		{"Headers", entryTexts(m.Headers)},
		{"Query parameters", entryTexts(m.QueryParameters)},
		{"Descriptors", m.DescriptorTexts()},
		{"When", []string{m.When}},
	}
	return slices.DeleteFunc(fields, func(f matchField) bool { return strings.Join(f.Values, "") == "" })
}

func entryTexts(entries []plan.Entry) (texts []string) {
	for _, e := range entries {
		text := e.Key
		if e.Value != "" {
			text += "=" + e.Value
		}
		texts = append(texts, text)
	}
	return texts
}

func keyPartText(part *plan.KeyPart) string {
	switch part.Type {
	case plan.KeyHeader:
		return "Header " + part.Header
	case plan.KeyCookie:
		return "Cookie " + part.Cookie
	case plan.KeyQueryParameter:
		return "Query parameter " + part.QueryParameter
	case plan.KeyClaim:
		return "Claim " + part.Claim.Name + " of " + part.Claim.Payload
	case plan.KeyDescriptor:
		return "Descriptor " + part.Descriptor
	case plan.KeyExpression:
		return "Expression " + part.Expression
	case plan.KeyPrincipal:
		return "Principal"
	case plan.KeyRemoteAddress:
		return "Client address /" + strconv.Itoa(part.IPv4PrefixLength) + ", IPv6 /" + strconv.Itoa(part.IPv6PrefixLength)
	}
	return string(part.Type)
}

func limitFactsOf(l *plan.Limit) limitFacts {
	f := limitFacts{Name: l.Name, Algorithm: string(l.Algorithm), Threshold: l.Threshold, Window: windowText(l)}
	var details listing
	details.addIf(l.Burst > 0, "burst "+number(l.Burst))
	details.addIf(l.BucketMicros > 0, "buckets of "+l.Bucket().String())
	details.addIf(l.HardLimitPercent > 0, "never more than "+number(l.HardQuota()))
	details.addIf(l.WarnPercent > 0, fmt.Sprintf("near from %d %%", l.WarnPercent))
	details.addIf(l.LongestBlock() > 0, "then blocks for "+blocksText(l))
	f.Details = strings.Join(details, ", ")
	return f
}

// listing is a list of texts.
type listing []string

func (l *listing) addIf(condition bool, text string) {
	if condition {
		*l = append(*l, text)
	}
}

// blocksText lists the lengths of the blocks of the limit.
func blocksText(l *plan.Limit) string {
	if l.BlockMillis > 0 {
		return millis(l.BlockMillis)
	}
	lengths := make([]string, len(l.BlocksMillis))
	for i, length := range l.BlocksMillis {
		lengths[i] = millis(length)
	}
	return strings.Join(lengths, ", ")
}

// windowText describes the window or the calendar of the limit. Concurrency has neither.
func windowText(l *plan.Limit) string {
	switch {
	case l.Algorithm == plan.Concurrency:
		return "at once"
	case l.Calendar != nil:
		return l.Calendar.String()
	}
	return millis(l.WindowMillis)
}

func overrideFactsOf(p *plan.Plan, o *plan.Override, reveal bool) overrideFacts {
	f := overrideFacts{Name: o.Name, Action: string(o.Action), Groups: o.Groups, When: o.When}
	isSecret := len(p.Key) == 1 && p.Key[0].IsSecret()
	for _, key := range o.Keys[:min(len(o.Keys), shownSelected)] {
		if isSecret && !reveal {
			key = httpapi.Mask(key)
		}
		f.Keys = append(f.Keys, visible(key))
	}
	for _, network := range o.CIDRs[:min(len(o.CIDRs), shownSelected)] {
		f.Networks = append(f.Networks, network.String())
	}
	f.More = len(o.Keys) + len(o.CIDRs) - len(f.Keys) - len(f.Networks)
	for i := range o.Limits {
		f.Limits = append(f.Limits, o.Limits[i].Name+": "+changeText(&o.Limits[i]))
	}
	return f
}

// changeText describes what an override or a candidate changes of a limit.
func changeText(l *plan.LimitOverride) string {
	var changes listing
	changes.addIf(l.Threshold != 0, "threshold "+number(l.Threshold))
	changes.addIf(l.WindowMillis != 0, "window "+millis(l.WindowMillis))
	changes.addIf(l.Burst != 0, "burst "+number(l.Burst))
	changes.addIf(l.BlockMillis != 0, "block "+millis(l.BlockMillis))
	return strings.Join(changes, ", ")
}
