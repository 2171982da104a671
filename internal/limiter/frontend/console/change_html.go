// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

// write implements content.
func (p *confirmPage) write(m *markup, l *layout) {
	m.add(`<div class="narrow">
<h1>%</h1>
<dl><dt>Policy</dt><dd>%</dd>`, p.Question, p.Target.Policy)
	if !p.All {
		m.add(`<dt>Key</dt><dd>` + keyNameStart)
		m.targetName(p.Target)
		m.add(`</div></dd>`)
	}
	m.with(p.Duration, `<dt>For</dt><dd class="num">%</dd>`)
	m.add(`</dl>
<p>%</p>
<div class="line">
<form method="post" action="/console/change">`, p.Effect)
	m.targetFields(l.CSRF, p.Target)
	m.add(`<input type="hidden" name="action" value="%">`, p.Name)
	m.with(p.Duration, `<input type="hidden" name="duration" value="%">`)
	class := "primary"
	if p.Grave {
		class = "danger"
	}
	m.add(`<button class="%">%</button></form>`, class, p.Button)
	if p.All {
		m.button(linkToPolicy(p.Target.Policy), "Cancel")
	} else {
		m.add(`<form method="post" action="/console/key">`)
		m.targetFields(l.CSRF, p.Target)
		m.add(`<button>Cancel</button></form>`)
	}
	m.add(`</div>
</div>`)
}
