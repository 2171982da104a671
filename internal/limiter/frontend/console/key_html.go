// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import "github.com/weir-dev/weir/internal/limiter/frontend/httptypes"

// write implements content.
func (p *keyPage) write(m *markup, l *layout) {
	m.add(`<p class="crumb"><a href="/console/policies">Policies</a> › `)
	m.policyLink(p.Target.Policy)
	m.add(`</p>
<h1>Key</h1>` + keyNameStart)
	if p.Listed != nil {
		m.listedKey(p.Listed)
		m.masked(p.Listed)
	} else {
		m.targetName(p.Target)
	}
	m.add(`</div>`)
	m.addIf(len(p.State.Key) > 0, `<p class="note">The policy counts this network as one client: the address that you gave is in it.</p>`)
	m.with(p.Notice, doneNote)
	m.with(p.Problem, alert)
	p.writeState(m)
	m.section("limits", "Limits", "", p.writeLimits)
	m.section("change", "Change", "", func(m *markup) { p.writeChanges(m, l) })
}

// writeLimits writes the limits with their drawings.
func (p *keyPage) writeLimits(m *markup) {
	m.add(`<p class="hint">The wide bar is what is used. The two below are the time from now on: until the limit admits again, and until all units are free.</p>
<div class="cards">`)
	for i := range p.Limits {
		m.limitCard(&p.Limits[i])
	}
	m.add(`</div>`)
}

// writeState writes what applies to the key besides limits.
func (p *keyPage) writeState(m *markup) {
	state := &p.State
	if state.Blocked {
		m.add(`<p class="note warn"><b>Blocked</b> for another <span class="num">%</span>, by %. Every check is denied.</p>`,
			millis(state.BlockLeftMs), blockedBy(state.BlockedBy))
	}
	if state.Override != "" {
		m.add(`<p class="note">Override <b>%</b> applies`, state.Override)
		m.with(state.Group, `, because the key is in group <b>%</b>`)
		m.add(`: %.</p>`, string(state.Action))
	}
	if e := state.Exception; e != nil {
		m.add(`<p class="note">Exception <b>%</b> applies until %: %.`, e.Name, until(e), string(e.Action))
		m.with(e.Reason, ` Reason: %`)
		m.add(`</p>`)
	}
	m.withNumber(state.OpenSlices, `<p class="note">Held units are in <b>slices</b>, <span class="num">%</span> now: replicas spend them without Redis, or return them.</p>`)
	m.withNumber(state.OpenReservations, `<p class="note">Held units are in open <b>reservations</b>, <span class="num">%</span> now.</p>`)
}

// until returns when the exception ends.
func until(e *httptypes.Exception) string { return e.Until.Format("2006-01-02 15:04:05 MST") }

// writeChanges writes the forms of the changes that the session may make.
func (p *keyPage) writeChanges(m *markup, l *layout) {
	if !p.MayBlock && !p.MayUnblock && !p.MayReset {
		m.add(`<p class="empty">`)
		m.addIf(l.Guest, `Nothing can be changed without a token: start Weir with <code>--admin-token-file</code>.`)
		m.addIf(!l.Guest, `Your account may read this key, and not change it. The chart value <code>access</code> grants the role operator.`)
		m.add(`</p>`)
		return
	}
	if p.MayUnblock || p.MayReset {
		m.add(`<form method="post" action="/console/confirm" class="line">`)
		m.targetFields(l.CSRF, p.Target)
		if p.MayUnblock {
			m.add(`<button name="action" value="lift"`)
			m.addIf(p.State.Blocked, ` class="primary"`)
			m.add(`>Lift the block</button>`)
		}
		m.addIf(p.MayReset, `<button name="action" value="reset">Reset</button>`)
		m.add(`</form>`)
	}
	if p.MayBlock {
		m.add(`<form method="post" action="/console/confirm" class="line">`)
		m.targetFields(l.CSRF, p.Target)
		m.add(`<label for="duration">Block for</label><input id="duration" name="duration" value="15m" size="8" required spellcheck="false" aria-describedby="duration-hint">
<button name="action" value="block">Block</button><span class="hint" id="duration-hint">such as 15m, 1h30m or 7d, at most 720h</span></form>`)
	}
	m.add(`<p class="hint">A page asks before anything changes.</p>`)
}
