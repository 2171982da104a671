// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

// write implements content.
func (p *loginPage) write(m *markup, l *layout) {
	m.add(`<div class="narrow">
<h1>%</h1>`, l.Title)
	m.with(p.Problem, alert)
	switch {
	case p.Code != "":
		p.writeConfirmation(m, l)
	case l.Guest:
		m.add(`<p>Everyone on this machine may read here. To change keys, start Weir with <code>--admin-token-file</code>.</p>
<p><a class="button" href="/console/">Open the overview</a></p>`)
	default:
		writeLogin(m, l)
	}
	m.add(`</div>`)
}

func (p *loginPage) writeConfirmation(m *markup, l *layout) {
	m.add(`<section>
<p class="note warn" role="alert">A link asks you to begin a session`)
	m.addIf(l.Session, " in place of yours")
	m.add(`. Continue only if you ran <code>kubectl weir console</code> yourself: otherwise you would work in the session of another person.</p>
<form method="post" action="/console/login">
<input type="hidden" name="csrf" value="%">
<input type="hidden" name="code" value="%">
<div><button class="primary">Begin the session</button></div>
</form>
</section>`, l.CSRF, p.Code)
}

func writeLogin(m *markup, l *layout) {
	m.add(`<section>
<h2>In a cluster</h2>
<p>Run this command. It prints a link that works once, for 30 seconds.</p>
<pre tabindex="0"><code>kubectl weir console</code></pre>
<p class="hint">If a link from another site brought you here, <a href="/console/">open the overview</a>.</p>
</section>
<section>
<h2>With a token</h2>
<p>For example the token of <code>--admin-token-file</code>. It stays in the memory of the server for ten minutes.</p>
<form method="post" action="/console/login" class="stack" autocomplete="off">
<input type="hidden" name="csrf" value="%">
<label for="token">Token</label>
<input id="token" name="token" type="password" required autocomplete="off" spellcheck="false">
<div><button class="primary">Log in</button></div>
</form>
</section>`, l.CSRF)
}

// write implements content.
func (f *failure) write(m *markup, l *layout) {
	m.add(`<div class="narrow">
<h1>%</h1>
<p>%</p>
<p><a class="button" href="/console/">Open the overview</a></p>
</div>`, l.Title, f.Detail)
}
