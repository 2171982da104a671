// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"strconv"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// write implements content.
func (p *overviewPage) write(m *markup, _ *layout) {
	m.add(`<h1>Overview</h1>`)
	m.section("rates", "Decisions in the last hour", p.Rates.Problem, p.writeRates)
	m.add(`<div class="columns">`)
	m.section("top", "Denied most often", p.Top.Problem, p.writeTop)
	m.section("blocks", "Blocked now", p.Blocks.Problem, p.writeBlocks)
	m.section("ready", "Policies", p.Policies.Problem, p.writeReady)
	m.section("health", "Replicas and Redis", "", p.writeHealth)
	m.add(`</div>`)
}

func (p *overviewPage) writeRates(m *markup) {
	m.plot(p.Plot)
	m.since(p.Rates.Data.Since)
	if missing := p.Rates.Data.Missing; len(missing) > 0 {
		m.add(`<p class="hint">These replicas did not report: %.</p>`, strings.Join(missing, ", "))
	}
	if p.Plot.Most == 0 {
		p.writeExample(m)
	}
}

// writeExample writes how to see a first decision.
func (p *overviewPage) writeExample(m *markup) {
	example := p.Example()
	if example == "" {
		m.add(`<p class="empty">Nothing is decided, since no policy is in force. `)
		m.addIf(p.Standalone, `Add a policy to a folder of <code>--policies</code>.`)
		m.addIf(!p.Standalone, `Apply a RateLimitPolicy with kubectl.`)
		m.add(`</p>`)
		return
	}
	m.add(`<p class="empty">Nothing was decided yet. This page shows decisions within a second: send a check`)
	m.addIf(!p.Standalone, `, in a cluster from a pod that may call the Service of Weir`)
	m.add(`, and reload.</p>`)
	if p.CheckURL != "" {
		m.add(`<pre tabindex="0"><code>curl -i -d '{"policies":["%"],"key":"alice"}' %/v1/check</code></pre>`, example, p.CheckURL)
	}
}

func (p *overviewPage) writeTop(m *markup) {
	if len(p.Keys) > 0 {
		m.keysTable(p.Keys, true)
		m.add(`<p class="hint">In the last five to ten minutes.`)
		m.withNumber(p.Top.Data.Dropped, ` Denials that could not be recorded: %.`)
		m.add(`</p>`)
	} else {
		m.add(`<p class="empty">No key was denied in the last minutes. Keys appear here within a second of their first denial.</p>`)
	}
	m.hidden(p.Top.Data.HiddenPolicies)
}

func (p *overviewPage) writeBlocks(m *markup) {
	if len(p.Blocks.Data.Blocks) > 0 {
		m.blocksTable(p.Blocks.Data.Blocks, true)
		m.addIf(p.Blocks.Data.Truncated, `<p class="hint">There are more: open a policy to see its blocks.</p>`)
	} else {
		m.add(`<p class="empty">No key is blocked. A limit with <code>blockDuration</code> blocks keys that exceed it; an operator can block any key.</p>`)
	}
	m.hidden(p.Blocks.Data.HiddenPolicies)
}

func (p *overviewPage) writeReady(m *markup) {
	m.add(`<p><a href="/console/policies"><span class="num">%</span> in force</a></p>`, number(p.Loaded()))
	switch {
	case len(p.Unready) > 0:
		p.writeUnready(m)
	case p.Standalone:
		m.add(`<p class="empty">Policies come from files, and are in force once they are loaded.</p>`)
	case p.Leader:
		m.addIf(p.HiddenUnready == 0, `<p class="empty">All policies are ready.</p>`)
	default:
		m.add(`<p class="note warn">No leader reports, so it is unknown which policies are ready, and edits of policies do not take effect. See <code>kubectl weir check</code>.</p>`)
	}
	m.withNumber(int64(p.HiddenUnready), `<p class="hint">Others that are not ready: <span class="num">%</span>.</p>`)
}

func (p *overviewPage) writeUnready(m *markup) {
	m.startTable("Policies that are not ready", "Policies that are not ready", "Policy", "Reason")
	for _, policy := range p.Unready {
		m.add(`<tr><td>`)
		m.policyLink(policy.ID)
		m.add(`</td><td>`+unready+`</td></tr>`, policy.Reason)
	}
	m.add(tableEnd)
}

func (p *overviewPage) writeHealth(m *markup) {
	if p.Process.Problem != "" {
		m.add(problemNote, p.Process.Problem)
	} else if p.Process.Data != nil {
		writeProcess(m, p.Process.Data)
	}
	replicas := p.Replicas()
	if len(replicas) == 0 {
		m.add(`<p class="empty">This process decides alone.</p>`)
		return
	}
	m.startTable("Replicas", "Replicas that decide", "Name", "#Revision", "#Skipped plans")
	for _, r := range replicas {
		m.add(`<tr><td>%</td><td class="num">%</td><td class="num">%</td></tr>`, r.Name, number(r.Revision), strconv.Itoa(r.Skips))
	}
	m.add(tableEnd)
}

func writeProcess(m *markup, p *httptypes.Process) {
	m.add(`<dl>`)
	m.with(p.Version, `<dt>Version</dt><dd>%</dd>`)
	if p.Redis != nil {
		writeRedis(m, p.Redis)
	} else {
		m.add(`<dt>Redis</dt><dd>none: counters are in the memory of this process</dd>`)
	}
	for _, c := range p.Certificates {
		m.add(`<dt>Certificate %</dt><dd class="num">until %</dd>`, c.Name, date(c.Expires))
	}
	m.add(`</dl>`)
	if p.Redis != nil {
		m.each(p.Redis.Problems, `<p class="note warn">%</p>`)
	}
}

func writeRedis(m *markup, r *httptypes.Redis) {
	servers := "does not answer"
	if len(r.Servers) > 0 {
		servers = strings.Join(r.Servers, ", ")
	}
	m.add(`<dt>Redis</dt><dd>%`, servers)
	m.with(r.OldestTested, ` <span class="badge bad">older than %</span>`)
	m.add(`</dd>`)
	if len(r.Evictions) > 0 {
		m.add(`<dt>Eviction</dt><dd>%</dd>`, strings.Join(r.Evictions, ", "))
	}
	if len(r.Servers) > 0 {
		memory := "no maxmemory"
		if r.MemoryUse != 0 {
			memory = percent(r.MemoryUse) + " of maxmemory"
		}
		m.add(`<dt>Memory</dt><dd class="num">%</dd>`, memory)
	}
}
