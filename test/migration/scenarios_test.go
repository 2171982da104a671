// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// scenario is a configuration without its domain, and calls that the servers answer in order.
type scenario struct {
	name   string
	config string
	more   []string // further parts, which are converted to Namespaces of their own
	// countsDenied gives the converted policies counting: Attempts, with which denied hits count as in the service.
	countsDenied bool
	calls        []call
}

// call is a call of ShouldRateLimit.
type call struct {
	descriptors []descriptor
	hits        uint32 // 0 is 1
	// weir is the answer of Weir where docs/migration.md documents a difference; "" expects the answer of the service.
	weir string
}

type descriptor struct {
	entries   []string // "key=value"
	peeks     bool     // hits_addend 0
	requested uint32   // requests per day in place of the configured limit; 0 is none
}

// one is a call of a single descriptor with these entries.
func one(entries ...string) call { return call{descriptors: []descriptor{{entries: entries}}} }

// both is a call of several descriptors with one entry each.
func both(entries ...string) (c call) {
	for _, entry := range entries {
		c.descriptors = append(c.descriptors, descriptor{entries: []string{entry}})
	}
	return c
}

func (c call) of(hits uint32) call { c.hits = hits; return c }

func (c call) answered(weir string) call { c.weir = weir; return c }

func (c call) peeking() call { c.descriptors[0].peeks = true; return c }

func (c call) requesting(limit uint32) call { c.descriptors[0].requested = limit; return c }

func times(n int, calls ...call) (all []call) {
	for range n {
		all = append(all, calls...)
	}
	return all
}

// scenarios are the scenarios by hand: each feature of a configuration, and each difference in docs/migration.md.
var scenarios = []scenario{
	{
		name:   "exhaustion",
		config: "- {key: user, rate_limit: {unit: day, requests_per_unit: 3}}\n- {key: team, rate_limit: {unit: month, requests_per_unit: 2}}",
		calls:  slices.Concat(times(5, one("user=ann")), times(1, one("user=bob"), one("user="), one("other=ann")), times(3, one("team=red"))),
	},
	{
		name:   "unknown",
		config: "- {key: user, value: ann}\n- {key: account, descriptors: [{key: plan, rate_limit: {unit: day, requests_per_unit: 1}}]}",
		calls:  times(2, one("user=ann"), one("user=bob"), one("account=1"), one("plan=free"), one("account=1", "plan=free"), one("account=1", "plan=free", "more=x")),
	},
	{
		name: "precedence",
		config: "- {key: user, value: bot, rate_limit: {unit: day, requests_per_unit: 1}}\n- {key: user, value: guest-*, rate_limit: {unit: day, requests_per_unit: 2}}\n" +
			"- {key: user, value: guest-long-*, rate_limit: {unit: day, requests_per_unit: 9}}\n- {key: user, rate_limit: {unit: day, requests_per_unit: 3}}",
		calls: times(4, one("user=bot"), one("user=guest-1"), one("user=guest-long-1"), one("user=guest-"), one("user=guest"), one("user=")),
	},
	{
		name: "nested",
		config: "- key: tenant\n  value: gold\n  descriptors:\n  - {key: path, value: /a, rate_limit: {unit: day, requests_per_unit: 2}}\n  - {key: path, rate_limit: {unit: day, requests_per_unit: 3}}\n" +
			"- key: tenant\n  rate_limit: {unit: day, requests_per_unit: 4}\n  descriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 1}}]",
		calls: times(5, one("tenant=gold", "path=/a"), one("tenant=gold", "path=/b"), one("tenant=gold"), one("tenant=iron"), one("tenant=iron", "path=/a")),
	},
	{
		name: "shared",
		config: "- {key: file, value: pub*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}}\n- {key: file, value: own*, rate_limit: {unit: day, requests_per_unit: 2}}\n" +
			"- {key: dir, value: d*, share_threshold: true, descriptors: [{key: name, rate_limit: {unit: day, requests_per_unit: 2}}]}",
		calls: times(2, one("file=pub1"), one("file=pub2"), one("file=own1"), one("file=own2"), one("dir=d1", "name=x"), one("dir=d2", "name=x"), one("dir=d1", "name=y")),
	},
	{
		name:   "unlimited",
		config: "- {key: user, value: root, rate_limit: {unlimited: true}}\n- {key: user, rate_limit: {unit: day, requests_per_unit: 1}}",
		calls:  times(3, one("user=root"), one("user=ann")),
	},
	{
		name:   "zero",
		config: "- {key: user, value: banned, rate_limit: {unit: day, requests_per_unit: 0}}\n- {key: user, rate_limit: {unit: day, requests_per_unit: 1}}",
		calls:  times(2, one("user=banned").answered("OVER_LIMIT: OVER_LIMIT"), one("user=ann")),
	},
	{
		name:   "shadow",
		config: "- {key: user, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}",
		calls:  times(3, one("user=ann").answered("OK: OK")),
	},
	{
		name:         "several descriptors",
		config:       "- {key: user, rate_limit: {unit: day, requests_per_unit: 6}}\n- {key: host, rate_limit: {unit: day, requests_per_unit: 3}}",
		countsDenied: true,
		calls:        slices.Concat(times(5, both("user=ann", "host=a")), times(2, one("user=ann")), times(1, both("user=bob", "nothing=x", "host=b"))),
	},
	{
		name:         "hits",
		config:       "- {key: user, rate_limit: {unit: day, requests_per_unit: 10}}",
		countsDenied: true,
		calls: []call{
			one("user=ann").of(4), one("user=ann").of(4), one("user=ann").peeking(), one("user=ann").of(4), one("user=ann"), one("user=ann").peeking(),
			one("user=bob").of(10), one("user=bob").peeking().answered("OVER_LIMIT: OVER_LIMIT 0/10"), one("user=bob"),
		},
	},
	{
		name:   "denied hits are not counted",
		config: "- {key: user, rate_limit: {unit: day, requests_per_unit: 10}}\n- {key: host, rate_limit: {unit: day, requests_per_unit: 1}}",
		calls: []call{
			one("user=ann").of(8), one("user=ann").of(4).answered("OVER_LIMIT: OVER_LIMIT 2/10"), one("user=ann").answered("OK: OK 1/10"),
			one("host=a"), both("user=bob", "host=a").answered("OVER_LIMIT: OK 10/10, OVER_LIMIT 0/1"), one("user=bob").answered("OK: OK 9/10"),
		},
	},
	{
		name:         "more hits than the limit",
		config:       "- {key: user, rate_limit: {unit: day, requests_per_unit: 2}}",
		countsDenied: true,
		calls:        []call{one("user=ann").of(3).answered("OVER_LIMIT: OVER_LIMIT 2/2"), one("user=ann").answered("OK: OK 1/2")},
	},
	{
		name:   "counters with one name",
		config: "- {key: a, rate_limit: {unit: day, requests_per_unit: 2}}\n- {key: a_b, rate_limit: {unit: day, requests_per_unit: 2}}",
		calls: []call{
			one("a=b_c"), one("a_b=c").answered("OK: OK 1/2"), one("a=b_c").answered("OK: OK 0/2"),
		},
	},
	{
		name:   "a key with an underscore",
		config: "- {key: a_b, rate_limit: {unit: day, requests_per_unit: 1}}",
		calls:  []call{one("a=b").answered("OK: OK"), one("a=b").answered("OK: OK"), one("a_b=x"), one("a_b=x")},
	},
	{
		name:   "one budget twice in a call",
		config: "- {key: user, rate_limit: {unit: day, requests_per_unit: 4}}",
		calls:  []call{both("user=ann", "user=ann").answered("OK: OK 3/4, OK 3/4"), one("user=ann").answered("OK: OK 2/4")},
	},
	{
		name:   "replaced limits stay in force",
		config: "- {key: user, rate_limit: {unit: day, requests_per_unit: 1, name: plain}}\n- {key: upload, rate_limit: {unit: day, requests_per_unit: 5, replaces: [{name: plain}]}}",
		calls:  []call{both("user=ann", "upload=x").answered("OK: OK 0/1, OK 4/5"), both("user=ann", "upload=x").answered("OVER_LIMIT: OVER_LIMIT 0/1, OK 4/5")},
	},
	{
		name:   "entries in another order",
		config: "- {key: tenant, descriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 1}}]}",
		calls:  []call{one("tenant=a", "path=b"), one("path=b", "tenant=a").answered("OVER_LIMIT: OVER_LIMIT 0/1")},
	},
	{
		name: "requested limits",
		config: "- {key: user, rate_limit: {unit: day, requests_per_unit: 2}}\n- {key: root, rate_limit: {unlimited: true}}\n" +
			"- {key: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}",
		calls: slices.Concat(times(2, one("user=ann").requesting(1)), []call{
			one("root=ann").requesting(1).answered("OK: OK"), one("root=ann").requesting(1).answered("OK: OK"),
			one("other=ann").requesting(1).answered("OK: OK"), one("other=ann").requesting(1).answered("OK: OK"),
			one("trial=ann").requesting(1).answered("OK: OK"), one("trial=ann").requesting(1).answered("OK: OK"),
		}),
	},
}

// randomScenario returns a configuration with keys of two levels, and calls whose descriptors begin with different keys: two
// descriptors of a call never have one budget. Each key is a part of its own.
func randomScenario(seed uint64) scenario {
	r := rand.New(rand.NewPCG(seed, 4))
	s := scenario{name: fmt.Sprintf("random %d", seed), countsDenied: true}
	for _, key := range []string{"a", "b", "c"} {
		var part strings.Builder
		randomKey(r, &part, key)
		s.more = append(s.more, part.String())
	}
	values := []string{"", "x", "x1", "x2", "y", "y1"}
	for range 80 {
		c := call{hits: uint32(r.IntN(3))}
		keys := []string{"a", "b", "c", "d"}
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, key := range keys[:1+r.IntN(2)] {
			d := descriptor{entries: []string{key + "=" + values[r.IntN(len(values))]}}
			if r.IntN(3) == 0 {
				d.entries = append(d.entries, "m="+values[r.IntN(len(values))])
			}
			c.descriptors = append(c.descriptors, d)
		}
		s.calls = append(s.calls, c)
	}
	return s
}

// mostRandomLimits is the largest number of limits of a random key: a decision has room for the limits of two keys.
const mostRandomLimits = 3

// randomKey writes descriptors with the key: some of an exact value, of wildcards, and of any value; some with a further
// level.
func randomKey(r *rand.Rand, config *strings.Builder, key string) {
	limits := 0
	write := func(indent, key, value string) {
		fmt.Fprintf(config, "%s- key: %s\n%s  value: %q\n", indent, key, indent, value)
		if strings.HasSuffix(value, "*") && r.IntN(2) == 0 {
			fmt.Fprintf(config, "%s  share_threshold: true\n", indent)
		}
		switch n := r.IntN(12); {
		case n < 9 && limits < mostRandomLimits: // at least 2: hits above a limit of 1 would count in the service only
			limits++
			fmt.Fprintf(config, "%s  rate_limit: {unit: %s, requests_per_unit: %d}\n", indent, []string{"day", "month", "year"}[n%3], 2+r.IntN(5))
		case n == 9:
			fmt.Fprintf(config, "%s  rate_limit: {unlimited: true}\n", indent)
		}
	}
	values := []string{"x", "x*", "y*", ""}
	r.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	for i, value := range values[:1+r.IntN(4)] {
		write("", key, value)
		if i == 0 && r.IntN(2) == 0 {
			config.WriteString("  descriptors:\n")
			write("  ", "m", values[r.IntN(4)])
		}
	}
}
