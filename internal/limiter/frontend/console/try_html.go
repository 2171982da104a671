// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// write implements content.
func (p *tryPage) write(m *markup, l *layout) {
	m.add(`<h1>Try a request</h1>
<p class="hint">Shows which policies apply and how they would decide. Nothing is spent.</p>`)
	m.with(p.Problem, alert)
	p.writeForm(m, l)
	if p.Answer == nil {
		return
	}
	m.section("decision", "Decision", "", p.writeDecision)
	m.section("apply", "Policies that apply", "", p.writeApplied)
	if len(p.Answer.NearMisses) > 0 {
		m.section("near", "Near misses", "", p.writeNearMisses)
	}
}

func (p *tryPage) writeForm(m *markup, l *layout) {
	m.add(`<form method="post" action="/console/try" class="stack">
<input type="hidden" name="csrf" value="%">
<div class="request"><div><label for="method">Method</label><input id="method" name="method" value="%" list="methods" spellcheck="false"><datalist id="methods"><option value="GET"><option value="POST"><option value="PUT"><option value="PATCH"><option value="DELETE"><option value="HEAD"></datalist></div>
<div><label for="url">URL or path</label><input id="url" name="url" value="%" placeholder="https://shop.example/login" spellcheck="false" autocomplete="off"></div></div>
<label for="headers">Headers, one a line</label>
<textarea id="headers" name="headers" rows="3" placeholder="X-Account: bob" spellcheck="false" autocomplete="off">%</textarea>
<label for="address">Client address</label>
<input id="address" name="remoteAddress" value="%" placeholder="192.0.2.1" spellcheck="false" autocomplete="off">
<details`, l.CSRF, p.Method, p.URL, p.Headers, p.RemoteAddress)
	m.addIf(p.Principal+p.Claims+p.Domain+p.Descriptors != "", " open")
	m.add(`><summary>Principal, claims, and checks by Envoy</summary><div class="stack">
<label for="principal">Principal</label><input id="principal" name="principal" value="%" spellcheck="false" autocomplete="off">
<label for="claims">Claims of verified tokens, as JSON</label><textarea id="claims" name="claims" rows="2" placeholder="{&quot;jwt&quot;: {&quot;tenant&quot;: &quot;acme&quot;}}" spellcheck="false" autocomplete="off">%</textarea>
<label for="domain">Domain</label><input id="domain" name="domain" value="%" spellcheck="false">
<label for="targets">Gateway and route, one a line</label><textarea id="targets" name="targets" rows="2" placeholder="HTTPRoute/shop/checkout" spellcheck="false">%</textarea>
<label for="descriptors">Descriptors, one a line</label><textarea id="descriptors" name="descriptors" rows="2" placeholder="user_id=7,tier=gold" spellcheck="false">%</textarea>
</div></details>
<div><button class="primary">Explain</button></div>
</form>`, p.Principal, p.Claims, p.Domain, p.Targets, p.Descriptors)
}

func (p *tryPage) writeDecision(m *markup) {
	d := &p.Answer.Decision
	verdict := "Denied"
	if d.Allowed {
		verdict = "Allowed"
	}
	m.add(`<p class="verdict"><span class="badge %">%</span> %`, verdictClass(d.Allowed), verdict, string(d.Reason))
	if d.Policy != "" {
		m.add(", by ")
		m.policyLink(d.Policy)
	}
	m.with(d.Limit, ", limit %")
	if d.RetryAfterMs != 0 {
		m.add(`; admitted again in <span class="num">%</span>`, millis(d.RetryAfterMs))
	}
	m.add(`.</p>`)
	m.with(string(d.Degraded), `<p class="note warn">Redis did not answer: the failure mode % decided.</p>`)
}

// verdictClass is the class of the badge of a verdict.
func verdictClass(allowed bool) string {
	if allowed {
		return "good"
	}
	return "bad"
}

// writeApplied writes the policies that apply.
func (p *tryPage) writeApplied(m *markup) {
	for i := range p.Answer.Policies {
		writeExplained(m, &p.Answer.Policies[i])
	}
	if len(p.Answer.Policies) == 0 {
		m.add(`<p class="empty">No policy applies to this request. `)
		m.addIf(len(p.Answer.NearMisses) > 0, `Those below nearly do.`)
		m.addIf(len(p.Answer.NearMisses) == 0, `<a href="/console/policies">See all policies</a>.`)
		m.add(`</p>`)
	}
	m.hidden(p.Answer.HiddenPolicies)
	m.withNumber(int64(p.ByName), `<p class="hint">Policies without matches: %. They apply only to checks that name them.</p>`)
}

// writeExplained writes one policy that applies.
func writeExplained(m *markup, p *httptypes.ExplainedPolicy) {
	m.add(`<article class="limit"><h3>`)
	m.policyLink(p.Policy)
	m.add(" ")
	m.modeBadge(string(p.Mode))
	m.add(` <span class="badge %">%</span></h3>
<dl>`, verdictClass(p.Allowed), string(p.Reason))
	for i := range p.Key {
		part := &p.Key[i]
		name := "Key"
		if part.Type != "" {
			name = string(part.Type) + " " + part.Name
		}
		m.add(`<dt>%</dt><dd>`+codePart+`</dd>`, name, visible(part.Value))
	}
	m.with(p.Override, `<dt>Override</dt><dd>%</dd>`)
	m.with(p.Group, `<dt>Group</dt><dd>%</dd>`)
	m.with(string(p.Action), `<dt>Action</dt><dd>%</dd>`)
	if e := p.Exception; e != nil {
		m.add(`<dt>Exception</dt><dd>% (%) until %</dd>`, e.Name, string(e.Action), until(e))
	}
	if p.Blocked {
		m.add(`<dt>Blocked</dt><dd>for <span class="num">%</span>, by %</dd>`, millis(p.BlockLeftMs), blockedBy(p.BlockedBy))
	}
	m.add(`</dl>`)
	if len(p.Limits) > 0 {
		writeExplainedLimits(m, p)
	}
	m.add(`</article>`)
}

func writeExplainedLimits(m *markup, p *httptypes.ExplainedPolicy) {
	m.startTable("Limits of "+p.Policy, "", "Limit", "#Used", "#Threshold", "#Window", "#Left")
	for i := range p.Limits {
		limit := &p.Limits[i]
		m.add(`<tr><td>%</td>`, limit.Limit)
		m.each([]string{
			number(limit.Used), number(limit.Threshold), cmp.Or(limit.Window, limit.Calendar, "at once"), number(limit.Remaining),
		}, `<td class="num">%</td>`)
		m.add(`</tr>`)
	}
	m.add(tableEnd)
}

func (p *tryPage) writeNearMisses(m *markup) {
	m.startTable("Policies that nearly apply", "", "Policy", "Why not", "It wants", "The request has")
	for i := range p.Answer.NearMisses {
		miss := &p.Answer.NearMisses[i]
		m.add(`<tr><td>`)
		m.policyLink(miss.Policy)
		m.add(`</td>
<td>%</td><td>`, why(miss))
		for _, value := range miss.Wants {
			m.add(codePart+" ", visible(value))
		}
		m.add(`</td><td>`)
		for _, value := range miss.Got {
			m.add(codePart+" ", visible(value))
		}
		m.add(`</td></tr>`)
	}
	m.add(tableEnd)
	m.withNumber(int64(p.Answer.MoreNearMisses), `<p class="hint">More near misses: %.</p>`)
}
