// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import "cmp"

// write implements content.
func (p *policiesPage) write(m *markup, _ *layout) {
	m.add(`<h1>Policies</h1>
<form method="get" action="/console/policies" class="line" role="search">
<label for="search">Search by Namespace or name</label>
<input id="search" name="search" type="search" value="%" spellcheck="false">
<button>Search</button>
</form>`, p.Search)
	m.with(p.Activity, problemNote)
	m.addIf(!p.Leader && !p.Standalone, `<p class="note warn">No leader reports, so it is unknown which policies are ready.</p>`)
	switch {
	case len(p.Policies) > 0:
		p.writeTable(m)
	case p.Search != "":
		m.add(`<p class="empty">No policy has “%” in its name. <a href="/console/policies">Show all policies</a></p>`, p.Search)
	case p.Hidden != 0:
		m.add(`<p class="empty">You may list no policy. The chart value <code>access</code> grants the right.</p>`)
	case p.Standalone:
		m.add(`<p class="empty">No policy is in force. Put a file with a RateLimitPolicy into the folder of <code>--policies</code>.</p>`)
	default:
		m.add(`<p class="empty">No policy is in force. Apply one: <code>kubectl apply -f policy.yaml</code></p>`)
	}
	m.hidden(p.Hidden)
}

func (p *policiesPage) writeTable(m *markup) {
	caption := number(p.Found) + " policies"
	if p.Search != "" {
		caption = number(p.Found) + " found"
	}
	m.add(`<section aria-label="List of policies">`)
	m.startTable("Policies", caption, "Policy", "Mode", "Limits", "Last hour", "#Denied 5 min", "#Allowed 1 h")
	for i := range p.Policies {
		p.Policies[i].write(m)
	}
	m.add(tableEnd + `</section>`)
	if p.Previous != "" || p.Next != "" {
		m.add(`<nav aria-label="More policies" class="line">`)
		if p.Previous != "" {
			m.button(p.Previous, "Previous")
		}
		if p.Next != "" {
			m.button(p.Next, "Next")
		}
		m.add(`</nav>`)
	}
}

func (r *policyRow) write(m *markup) {
	m.add(`<tr><td>`)
	m.policyLink(r.Name)
	m.with(r.Reason, ` `+unready)
	m.add(`</td>
<td>`)
	if r.Loaded {
		m.modeBadge(r.Mode)
	} else {
		m.add(unready, "not loaded")
	}
	m.add(`</td>
<td>`)
	for _, limit := range r.FirstLimits() {
		window := "at once"
		if length := cmp.Or(limit.Window, limit.Calendar); length != "" {
			window = "/ " + length
		}
		m.add(`<div class="nowrap"><span class="num">%</span> % <span class="hint">%</span></div>`,
			number(limit.Threshold), window, string(limit.Algorithm))
	}
	m.withNumber(int64(r.MoreLimits()), `<span class="hint">and % more</span>`)
	m.add(`</td>
<td>`)
	if r.Sparkline != nil {
		m.sparkline(r.Sparkline)
	} else {
		m.add(`<span class="hint">none</span>`)
	}
	var denied, allowed int64
	if r.Sums != nil {
		denied, allowed = r.Sums.Last5Minutes.AllDenied(), r.Sums.LastHour.Allowed
	}
	m.add(`</td>
<td class="num">%</td>
<td class="num">%</td></tr>`, number(denied), number(allowed))
}
