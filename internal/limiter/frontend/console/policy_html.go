// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// write implements content.
func (p *policyPage) write(m *markup, l *layout) {
	m.add(`<p class="crumb"><a href="/console/policies">Policies</a></p>
<h1>%</h1>
<p class="badges">`, p.Policy)
	if p.Facts != nil {
		m.modeBadge(p.Facts.Mode)
		m.add(" ")
	}
	switch {
	case p.Reason != "":
		m.add(unready, "Not ready: "+p.Reason)
	case p.Known:
		m.add(`<span class="badge good">Ready</span>`)
	case !p.Standalone:
		m.add(`<span class="badge">Ready is unknown: no leader reports</span>`)
	}
	m.add(`</p>`)
	m.with(p.Notice, doneNote)
	if !p.Loaded {
		m.add(`<p class="note warn">No plan of this policy is in force. See <code>kubectl describe rlpol</code> for the reason.</p>`)
		return
	}
	m.section("rates", "Decisions in the last hour", p.Rates.Problem, p.writeRates)
	if p.Facts != nil {
		m.section("limits", "Limits", "", p.Facts.writeLimits)
	} else {
		m.add(`<p class="note">Your account may not read the plan of this policy. The chart value <code>access</code> grants the right.</p>`)
	}
	m.add(`<div class="columns">`)
	m.section("top", "Denied most often", p.Top.Problem, p.writeTop)
	m.section("blocks", "Blocked now", p.Blocks.Problem, func(m *markup) { p.writeBlocks(m, l) })
	if p.Facts != nil {
		m.section("find", p.findHeading(), "", func(m *markup) { p.writeFind(m, l) })
		m.section("matches", "Applies to", "", p.writeMatches)
	}
	m.add(`</div>`)
	if p.Facts != nil && len(p.Facts.Overrides) > 0 {
		m.section("overrides", "Overrides", "", p.Facts.writeOverrides)
	}
}

func (p *policyPage) writeRates(m *markup) {
	if p.Plot.Most != 0 {
		m.plot(p.Plot)
	} else {
		m.add(`<p class="empty">This policy decided nothing in the last hour. <a href="/console/try">Try a request</a> to see whether it applies.</p>`)
	}
	m.since(p.Rates.Data.Since)
}

// writeLimits writes the limits, the other facts and the key.
func (f *facts) writeLimits(m *markup) {
	m.startTable("Limits", "", "Name", "#Threshold", "#Window", "Algorithm", "Details")
	for i := range f.Limits {
		limit := &f.Limits[i]
		m.add(`<tr><td>%</td><td class="num">%</td><td class="num">%</td><td>%</td><td>%</td></tr>`,
			limit.Name, number(limit.Threshold), limit.Window, limit.Algorithm, limit.Details)
	}
	m.add(tableEnd + `<dl>`)
	for _, row := range f.Rows {
		m.add(`<dt>%</dt><dd>%</dd>`, row.Name, row.Value)
	}
	m.add(`<dt>Key</dt><dd>`)
	m.addIf(len(f.Key) == 0, `none: all requests share one budget`)
	for i, part := range f.Key {
		m.addIf(i > 0, ", ")
		m.add(`<code>%</code>`, part)
	}
	m.add(`</dd></dl>`)
}

func (p *policyPage) writeTop(m *markup) {
	if len(p.Keys) == 0 {
		m.add(`<p class="empty">No key was denied in the last minutes.</p>`)
		return
	}
	m.keysTable(p.Keys, false)
	m.add(`<p class="hint">In the last five to ten minutes.</p>`)
}

func (p *policyPage) writeBlocks(m *markup, l *layout) {
	if len(p.Blocks.Data.Blocks) == 0 {
		m.add(`<p class="empty">No key is blocked.</p>`)
		return
	}
	m.blocksTable(p.Blocks.Data.Blocks, false)
	if p.MayUnblock {
		m.add(`<form method="post" action="/console/confirm"><input type="hidden" name="csrf" value="%"><input type="hidden" name="policy" value="%"><button name="action" value="lift-all">Lift all blocks</button></form>`,
			l.CSRF, p.Policy)
	}
}

func (p *policyPage) findHeading() literal {
	if len(p.Facts.Key) > 0 {
		return "Open a key"
	}
	return "Open the shared budget"
}

// writeFind writes the form that opens a key.
func (p *policyPage) writeFind(m *markup, l *layout) {
	m.add(`<form method="post" action="/console/key" class="stack"><input type="hidden" name="csrf" value="%"><input type="hidden" name="policy" value="%">`,
		l.CSRF, p.Policy)
	for i, part := range p.Facts.Key {
		m.add(`<label for="key-%">%</label><input id="key-%" name="key" spellcheck="false" autocomplete="off">`, strconv.Itoa(i), part, strconv.Itoa(i))
	}
	m.addIf(len(p.Facts.Key) > 0, `<label><input type="checkbox" name="asGiven" value="true"> Use the key as it is, although no request can have it</label>`)
	m.addIf(p.Facts.ReadsCaller, `<label for="remote-address">Client address, for overrides</label><input id="remote-address" name="remoteAddress" spellcheck="false" autocomplete="off">
<label for="principal">Principal, for overrides</label><input id="principal" name="principal" spellcheck="false" autocomplete="off">`)
	m.add(`<div><button class="primary">Open</button></div></form>`)
}

func (p *policyPage) writeMatches(m *markup) {
	for i, fields := range p.Facts.Matches {
		m.add(`<dl class="match">`)
		m.addIf(i > 0, `<dt>or</dt><dd></dd>`)
		for _, field := range fields {
			m.add(`<dt>%</dt><dd>`, field.Name)
			m.each(field.Values, code)
			m.add(`</dd>`)
		}
		m.add(`</dl>`)
	}
	if len(p.Facts.Matches) == 0 {
		m.add(`<p class="empty">Only checks that name it, as in <code>{"policies":["%"]}</code>. Add <code>matches</code> or <code>targetRefs</code> to apply it to requests.</p>`, p.Policy)
	}
	m.with(p.Targets.Problem, problemNote)
	for i := range p.Targets.Data.Policies {
		writeTargets(m, &p.Targets.Data.Policies[i])
	}
}

// writeTargets writes when a check last applied, by any target and by each.
func writeTargets(m *markup, p *httptypes.TargetedPolicy) {
	if p.LastCheck != nil {
		m.add(`<p class="hint">The last check was reported at %.</p>`, date(*p.LastCheck))
	} else {
		m.add(`<p class="hint">No check in the last 24 hours.</p>`)
	}
	if len(p.Targets) == 0 {
		return
	}
	m.add(`<dl class="match">`)
	for _, t := range p.Targets {
		m.add(`<dt><code>%</code></dt><dd>%</dd>`, t.Target, lastCheck(t.LastCheck))
	}
	m.add(`</dl>`)
}

func lastCheck(t *time.Time) string {
	if t == nil {
		return "no check in the last 24 hours"
	}
	return date(*t)
}

func (f *facts) writeOverrides(m *markup) {
	m.startTable("Overrides", "", "Name", "Selects", "Effect")
	for i := range f.Overrides {
		o := &f.Overrides[i]
		m.add(`<tr><td>%</td><td>`, o.Name)
		m.each(o.Keys, code)
		m.each(o.Groups, `group `+code)
		m.each(o.Networks, code)
		m.withNumber(int64(o.More), "and % more ")
		m.with(o.When, `<code>%</code>`)
		effect := o.Action
		if len(o.Limits) > 0 {
			effect = strings.Join(o.Limits, "; ")
		}
		m.add(`</td>
<td>%</td></tr>`, effect)
	}
	m.add(tableEnd)
}
