// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// Parts that pages share.
const (
	alert        literal = `<p class="note warn" role="alert">%</p>`
	problemNote  literal = `<p class="note warn" role="status">%</p>`
	doneNote     literal = `<p class="note good" role="status">%</p>`
	codePart     literal = `<code class="part">%</code>`
	code         literal = `<code>%</code> `
	keyNameStart literal = `<div class="keyname" tabindex="0" role="group" aria-label="Key">`
	tableEnd     literal = `</tbody></table></div>`
	unready      literal = `<span class="badge bad">%</span>`
)

// section writes a section: its heading, then the problem or, if that is empty, what write writes.
func (m *markup) section(id, heading literal, problem string, write func(*markup)) {
	m.add(`<section aria-labelledby="` + id + `"><h2 id="` + id + `">` + heading + `</h2>`)
	if problem != "" {
		m.add(problemNote, problem)
	} else {
		write(m)
	}
	m.add(`</section>`)
}

// startTable begins a table with a name for screen readers, the caption or, if that is empty, the name as a hidden caption,
// and the headings of the columns. A # before a heading marks a column of numbers.
func (m *markup) startTable(name, caption string, headings ...string) {
	m.add(`<div class="scroll" tabindex="0" role="group" aria-label="%"><table>`, name)
	if caption != "" {
		m.add(`<caption>%</caption>`, caption)
	} else {
		m.add(`<caption class="off">%</caption>`, name)
	}
	m.add(`<thead><tr>`)
	for _, heading := range headings {
		text, isNumber := strings.CutPrefix(heading, "#")
		m.add(`<th scope="col"`)
		m.addIf(isNumber, ` class="num"`)
		m.add(`>%</th>`, text)
	}
	m.add(`</tr></thead><tbody>`)
}

// startKeysTable begins a table of keys, with a column of policies if all is true.
func (m *markup) startKeysTable(name string, all bool, headings ...string) {
	first := []string{"Key", "Policy"}
	if !all {
		first = first[:1]
	}
	m.startTable(name, "", append(first, headings...)...)
}

// codeParts writes the parts of a key.
func (m *markup) codeParts(parts []string) {
	for i, part := range parts {
		m.addIf(i > 0, " ")
		m.add(codePart, part)
	}
}

// listedKey writes a key of a list.
func (m *markup) listedKey(k *httptypes.ListedKey) { m.codeParts(listedParts(k.Key, k.Cut)) }

func (m *markup) masked(k *httptypes.ListedKey) {
	m.addIf(k.Masked, ` <span class="hint">masked</span>`)
}

// keyCell writes a key of a list, with a link to its page.
func (m *markup) keyCell(policy string, k *httptypes.ListedKey) {
	if k.KeyHash == "" {
		m.listedKey(k)
	} else {
		m.add(`<a class="key" href="%">`, string(linkToKey(policy, k.KeyHash)))
		m.listedKey(k)
		m.add(`</a>`)
	}
	m.masked(k)
}

// targetName writes the key of the target.
func (m *markup) targetName(t *target) {
	switch {
	case len(t.Key) > 0:
		parts := make([]string, len(t.Key))
		for i, part := range t.Key {
			parts[i] = visible(part)
		}
		m.codeParts(parts)
	case t.KeyHash != "":
		m.add(codePart, "#"+t.KeyHash)
	default:
		m.add(codePart, "(shared)")
	}
}

// targetFields writes the fields of a form that name the target.
func (m *markup) targetFields(csrf string, t *target) {
	m.add(`<input type="hidden" name="csrf" value="%">
<input type="hidden" name="policy" value="%">`, csrf, t.Policy)
	m.each(t.Key, `<input type="hidden" name="key" value="%">`)
	m.addIf(t.AsGiven, `<input type="hidden" name="asGiven" value="true">`)
	m.with(t.KeyHash, `<input type="hidden" name="keyHash" value="%">`)
	m.with(t.RemoteAddress, `<input type="hidden" name="remoteAddress" value="%">`)
	m.with(t.Principal, `<input type="hidden" name="principal" value="%">`)
}

// plot writes the drawing of rates, with its legend.
func (m *markup) plot(p *plot) {
	m.add(`<figure class="plot">
<div class="frame"><span class="most num" aria-hidden="true">%</span>
<svg viewBox="0 0 600 100" preserveAspectRatio="none" role="img" aria-label="%">
<path class="grid" d="M0,0.5H600M0,50H600M0,99.5H600"/>`, number(p.Most), p.Label)
	m.bars(p)
	for _, s := range p.Slots {
		m.add(`<rect class="slot" x="%" y="0" width="10" height="100"><title>%</title></rect>`, s.X, s.Text)
	}
	m.add(`</svg></div>
<div class="axis num" aria-hidden="true"><span>%</span><span>each bar is a minute, UTC</span><span>%</span></div>
<figcaption><ul class="legend">
<li><span class="swatch allowed" aria-hidden="true"></span>Allowed <b class="num">%</b></li>
<li><span class="swatch denied" aria-hidden="true"></span>Denied <b class="num">%</b></li>
<li><span class="swatch shadow" aria-hidden="true"></span>Denied only in Shadow <b class="num">%</b></li>
</ul></figcaption>
</figure>`, p.Begin, p.End, number(p.Total.Allowed), number(p.Total.Denied), number(p.Total.ShadowDenied))
}

func (m *markup) sparkline(p *plot) {
	m.add(`<svg class="spark" viewBox="0 0 600 100" preserveAspectRatio="none" aria-hidden="true">`)
	m.bars(p)
	m.add(`</svg>`)
}

func (m *markup) bars(p *plot) {
	m.add(`<path class="denied" d="%"/><path class="shadow" d="%"/><path class="allowed" d="%"/>`, p.Denied, p.Shadow, p.Allowed)
}

// since writes when counting began, unless that is an hour ago or more.
func (m *markup) since(t *time.Time) {
	if t != nil {
		m.add(`<p class="hint">Decisions are counted since %.</p>`, date(*t))
	}
}

// hidden writes how many policies the reader may not list.
func (m *markup) hidden(policies int) {
	m.withNumber(int64(policies), `<p class="hint">Policies of Namespaces that you may not list: <span class="num">%</span>.</p>`)
}

// modeBadge writes the mode of a policy.
func (m *markup) modeBadge(mode string) { m.add(`<span class="badge %">%</span>`, mode, mode) }

// keysTable writes the keys, with their policies if all is true.
func (m *markup) keysTable(keys []deniedKey, all bool) {
	m.startKeysTable("Keys that are denied most often", all, "#Denials")
	for i := range keys {
		k := &keys[i]
		m.keyRow(k.Policy, &k.ListedKey, all)
		m.add(`<td class="num">`)
		if k.Error != 0 {
			m.add("%–", number(k.Fewest()))
		}
		m.add(`%</td></tr>`, number(k.Count))
	}
	m.add(tableEnd)
}

// blocksTable writes the blocks, with their policies if all is true.
func (m *markup) blocksTable(blocks []httptypes.ListedBlock, all bool) {
	m.startKeysTable("Keys that are blocked now", all, "Blocked by", "#Left")
	for i := range blocks {
		b := &blocks[i]
		m.keyRow(b.Policy, &b.ListedKey, all)
		m.add(`<td class="nowrap">%</td>
<td class="num">%</td></tr>`, blockedBy(b.Limit), millis(b.LeftMs))
	}
	m.add(tableEnd)
}

// keyRow begins a row of a table with the cell of the key and, if all is true, the one of the policy.
func (m *markup) keyRow(policy string, k *httptypes.ListedKey, all bool) {
	m.add(`<tr><td>`)
	m.keyCell(policy, k)
	m.add(`</td>`)
	if all {
		m.add(`<td>`)
		m.policyLink(policy)
		m.add(`</td>`)
	}
}

// blockedBy returns who started a block: a limit or, without its name, an operator.
func blockedBy(limit string) string {
	if limit == "" {
		return "an operator"
	}
	return "limit " + limit
}

// limitCard writes a limit of a key with its drawing.
func (m *markup) limitCard(k *keyLimit) {
	m.add(`<article class="limit">
<h3>%`, k.Limit)
	m.with(k.Override, ` <span class="hint">override %</span>`)
	m.with(k.Exception, ` <span class="hint">exception %</span>`)
	class := "denied"
	if k.Allowed {
		class = "allowed"
	}
	m.add(`</h3>
<p class="hint">%, <span class="num">%</span> <span class="num">%</span></p>
<svg class="gauge" viewBox="0 0 600 16" preserveAspectRatio="none" role="img" aria-label="% of % units are used">
<rect class="track" width="600" height="16"/><rect class="%" width="%" height="16"/></svg>
<p class="pair num"><span><b>%</b> of % used`,
		string(k.Algorithm), number(k.Threshold), k.Window.Length, number(k.Used), number(k.Window.Quota), class, k.Window.Used,
		number(k.Used), number(k.Window.Quota))
	m.withNumber(k.Held, ", % of them held")
	m.add(`</span><span><b>%</b> left</span></p>
<svg class="gauge time" viewBox="0 0 600 16" preserveAspectRatio="none" role="img" aria-label="%">
<rect class="track" width="600" height="7"/><rect class="track" y="9" width="600" height="7"/>`, number(k.Remaining), k.frees())
	m.with(k.Window.Retry, `<rect class="denied" width="%" height="7"/>`)
	m.add(`<rect class="spent" y="9" width="%" height="7"/></svg>
<p class="pair num hint"><span>now</span><span>in %</span></p>
<p>%</p>`, k.Window.Reset, millis(k.Window.Span), k.frees())
	m.addIf(k.Shadow, `<p class="hint">Mode Shadow: this limit never denies.</p>`)
	m.addIf(k.Overflow, `<p class="hint">A flood of new keys: this key shares a budget with all unknown keys.</p>`)
	m.add(`</article>`)
}

// frees returns when the limit admits again, and when all its units are free.
func (k *keyLimit) frees() string {
	text := "Admits again in " + millis(k.Window.RetryMs) + "."
	switch {
	case k.Window.Never:
		text = "Waiting does not help."
	case k.Allowed:
		text = "Admits now."
	}
	switch {
	case k.ResetAfterMs != 0:
		text += " All units are free in " + millis(k.ResetAfterMs) + "."
	case k.Allowed:
		text += " No unit is in use."
	}
	return text
}
