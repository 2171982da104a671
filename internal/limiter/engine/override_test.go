// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

func overridden(overrides ...plan.Override) func(*plan.Plan) {
	return func(p *plan.Plan) { p.Overrides = append(p.Overrides, overrides...) }
}

func allow(o plan.Override) plan.Override {
	o.Name, o.Action = "allowed", plan.ActionAllow
	return o
}

func deny(o plan.Override) plan.Override {
	o.Name, o.Action = "denied", plan.ActionDeny
	return o
}

func keys(values ...string) plan.Override { return plan.Override{Keys: values} }

func cidrs(networks ...string) plan.Override {
	var o plan.Override
	for _, network := range networks {
		o.CIDRs = append(o.CIDRs, netip.MustParsePrefix(network))
	}
	return o
}

func when(text string) plan.Override { return plan.Override{When: text} }

func limits(changed ...plan.LimitOverride) plan.Override {
	return plan.Override{Name: "gold", When: `principal == "gold"`, Action: plan.ActionLimit, Limits: changed}
}

func counts(p *plan.Plan) { p.Counting = plan.CountAttempts }

// apiKey is the usual key of the policies here.
var apiKey = plan.KeyPart{Type: plan.KeyHeader, Header: "x-api-key"}

func withKey(value string) plan.Attributes {
	return plan.Attributes{Headers: map[string]string{"x-api-key": value}}
}

func from(address string) plan.Attributes {
	return plan.Attributes{RemoteAddress: netip.MustParseAddr(address)}
}

func TestSelectors(t *testing.T) {
	long := strings.Repeat("é", 255) // 510 bytes: its key in Redis is a hash
	address := plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 32, IPv6PrefixLength: 64}
	all := plan.Override{Keys: []string{"acme"}, CIDRs: cidrs("10.0.0.0/8").CIDRs, When: `request.method == "GET"`}
	request := func(key, address, method string) plan.Attributes {
		return plan.Attributes{Method: method, RemoteAddress: netip.MustParseAddr(address), Headers: map[string]string{"x-api-key": key}}
	}
	for name, tc := range map[string]struct {
		override   plan.Override
		parts      []plan.KeyPart
		given      []string
		attributes plan.Attributes
		want       bool
	}{
		"a given key":              {keys("a", "acme"), []plan.KeyPart{apiKey}, []string{"acme"}, plan.Attributes{}, true},
		"a derived key":            {keys("a", "acme"), []plan.KeyPart{apiKey}, nil, withKey("acme"), true},
		"another key":              {keys("acme"), []plan.KeyPart{apiKey}, nil, withKey("Acme"), false},
		"a given key over another": {keys("acme"), []plan.KeyPart{apiKey}, []string{"globex"}, withKey("acme"), false},
		"a missing key":            {keys("acme"), []plan.KeyPart{apiKey}, nil, plan.Attributes{}, false},
		"a key of more parts":      {keys("acme"), []plan.KeyPart{apiKey}, []string{"acme", "x"}, plan.Attributes{}, false},
		"a key to be escaped":      {keys("a{b}:c|-%"), []plan.KeyPart{apiKey}, nil, withKey("a{b}:c|-%"), true},
		"what it is escaped to":    {keys("a%3Ab"), []plan.KeyPart{apiKey}, nil, withKey("a:b"), false},
		"a long given key":         {keys(long), []plan.KeyPart{apiKey}, []string{long}, plan.Attributes{}, true},
		"a long derived key":       {keys(long), []plan.KeyPart{apiKey}, nil, withKey(long), true},
		"one that only starts so":  {keys(long), []plan.KeyPart{apiKey}, nil, withKey(long + "x"), false},
		"an address as the key":    {keys("192.0.2.7"), []plan.KeyPart{address}, nil, from("::ffff:192.0.2.7"), true},
		"a network as the key":     {keys("2001:db8::/64"), []plan.KeyPart{address}, nil, from("2001:db8::7"), true},

		"in a network":              {cidrs("192.0.2.0/24", "10.0.0.0/8"), nil, nil, from("10.1.2.3"), true},
		"in no network":             {cidrs("192.0.2.0/24", "10.0.0.0/8"), nil, nil, from("11.0.0.1"), false},
		"no address":                {cidrs("0.0.0.0/0", "::/0"), nil, nil, plan.Attributes{}, false},
		"any IPv4 address":          {cidrs("0.0.0.0/0"), nil, nil, from("11.0.0.1"), true},
		"an IPv6 address is none":   {cidrs("0.0.0.0/0"), nil, nil, from("2001:db8::1"), false},
		"a mapped address is IPv4":  {cidrs("10.0.0.0/8"), nil, nil, from("::ffff:10.0.0.1"), true},
		"an IPv6 network":           {cidrs("10.0.0.0/8", "2001:db8::/32"), nil, nil, from("2001:db8:1::1"), true},
		"an address with a zone":    {cidrs("fe80::/10"), nil, nil, from("fe80::1%eth0"), true},
		"a whole address":           {cidrs("192.0.2.7/32", "2001:db8::1/128"), nil, nil, from("2001:db8::1"), true},
		"a neighbour of an address": {cidrs("192.0.2.7/32"), nil, nil, from("192.0.2.8"), false},
		"the network beside":        {cidrs("10.0.0.0/9", "10.192.0.0/10"), nil, nil, from("10.128.0.1"), false},

		"a condition":                  {when(`principal.startsWith("gold-")`), nil, nil, plan.Attributes{Principal: "gold-1"}, true},
		"a condition that is false":    {when(`principal.startsWith("gold-")`), nil, nil, plan.Attributes{Principal: "silver"}, false},
		"a condition on what is not":   {when(`request.headers["x-tier"] == "" && remoteAddress == ""`), nil, nil, plan.Attributes{}, true},
		"a condition that fails":       {when(`request.path.split("/")[5] != "x"`), nil, nil, plan.Attributes{Path: "/a"}, false},
		"a condition on what is clean": {when(`request.host == "a.example" && request.path == "/b"`), nil, nil, plan.Attributes{Host: "A.example:80", Path: "/a/../b?c"}, true},

		"all of them":                     {all, []plan.KeyPart{apiKey}, nil, request("acme", "10.0.0.1", "get"), true},
		"all but the key":                 {all, []plan.KeyPart{apiKey}, nil, request("globex", "10.0.0.1", "GET"), false},
		"all but the network":             {all, []plan.KeyPart{apiKey}, nil, request("acme", "11.0.0.1", "GET"), false},
		"all but the condition":           {all, []plan.KeyPart{apiKey}, nil, request("acme", "10.0.0.1", "PUT"), false},
		"all of them, with a given key":   {all, []plan.KeyPart{apiKey}, []string{"acme"}, request("", "10.0.0.1", "GET"), true},
		"all but the key, which is given": {all, []plan.KeyPart{apiKey}, []string{"x"}, request("acme", "10.0.0.1", "GET"), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := makePlan("a/x", keyed(tc.parts...), overridden(deny(tc.override)))
			g.Expect(p.Validate()).To(Succeed())
			d := newFixture(p).decide(t, &limiter.Check{Policies: []string{"a/x"}, Key: tc.given, Attributes: tc.attributes, Cost: 1})
			want := limiter.ReasonAllowed
			if tc.want {
				want = limiter.ReasonDeniedByOverride
			}
			g.Expect(d.Reason).To(Equal(want))
		})
	}
}

func TestFirstOverrideWins(t *testing.T) {
	for name, tc := range map[string]struct {
		overrides []plan.Override
		want      limiter.Reason
	}{
		"allowed before denied":       {[]plan.Override{allow(when("true")), deny(when("true"))}, limiter.ReasonExempt},
		"denied before allowed":       {[]plan.Override{deny(when("true")), allow(when("true"))}, limiter.ReasonDeniedByOverride},
		"the first that selects":      {[]plan.Override{allow(when("false")), deny(when("true"))}, limiter.ReasonDeniedByOverride},
		"limited before denied":       {[]plan.Override{{Name: "l", When: "true", Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "burst", Threshold: 1}}}, deny(when("true"))}, limiter.ReasonAllowed},
		"one that fails is passed by": {[]plan.Override{allow(when(`request.path.split("/")[5] == ""`)), deny(when("true"))}, limiter.ReasonDeniedByOverride},
		"none":                        {[]plan.Override{allow(when("false")), deny(keys("x"))}, limiter.ReasonAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(makePlan("a/x", keyed(apiKey), overridden(tc.overrides...)))
			NewWithT(t).Expect(f.decide(t, named("a/x")).Reason).To(Equal(tc.want))
		})
	}
}

// Overrides hold for matched checks, too, and before a missing key is judged.
func TestOverridesComeFirst(t *testing.T) {
	office := cidrs("10.0.0.0/8")
	matched := matching(plan.Match{Paths: []string{"/*"}})
	for name, tc := range map[string]struct {
		edits      []func(*plan.Plan)
		attributes plan.Attributes
		want       limiter.Reason
	}{
		"matched":                       {[]func(*plan.Plan){overridden(deny(office))}, from("10.0.0.1"), limiter.ReasonDeniedByOverride},
		"matched by another":            {[]func(*plan.Plan){overridden(deny(office))}, from("11.0.0.1"), limiter.ReasonAllowed},
		"allowed without a key":         {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeyDeny), overridden(allow(office))}, from("10.0.0.1"), limiter.ReasonExempt},
		"denied without a key":          {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeySkip), overridden(deny(office))}, from("10.0.0.1"), limiter.ReasonDeniedByOverride},
		"limited without a key":         {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeyDeny), overridden(limits(plan.LimitOverride{Name: "burst", Threshold: 9}))}, plan.Attributes{Principal: "gold"}, limiter.ReasonMissingKey},
		"not selected without a key":    {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeyDeny), overridden(allow(office))}, from("11.0.0.1"), limiter.ReasonMissingKey},
		"skipped although not selected": {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeySkip), overridden(deny(office))}, from("11.0.0.1"), limiter.ReasonNoPolicy},
		"disabled whatever it says":     {[]func(*plan.Plan){mode(plan.ModeDisabled), overridden(deny(office))}, from("10.0.0.1"), limiter.ReasonNoPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(makePlan("a/x", append(tc.edits, matched)...))
			tc.attributes.Path = "/a"
			NewWithT(t).Expect(f.decide(t, &limiter.Check{Cost: 1, Attributes: tc.attributes}).Reason).To(Equal(tc.want))
		})
	}
}

func TestExempt(t *testing.T) {
	exempt := overridden(allow(keys("alice")))
	for name, tc := range map[string]struct {
		plans  []*plan.Plan
		reason limiter.Reason
		limits int
	}{
		"alone":                {[]*plan.Plan{makePlan("a/x", keyed(apiKey), exempt)}, limiter.ReasonExempt, 0},
		"beside a disabled":    {[]*plan.Plan{makePlan("a/x", keyed(apiKey), exempt), makePlan("a/y", mode(plan.ModeDisabled))}, limiter.ReasonExempt, 0},
		"in mode Shadow":       {[]*plan.Plan{makePlan("a/x", keyed(apiKey), mode(plan.ModeShadow), exempt)}, limiter.ReasonExempt, 0},
		"beside one that asks": {[]*plan.Plan{makePlan("a/x", keyed(apiKey), exempt), makePlan("a/y")}, limiter.ReasonAllowed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plans...)
			var ids []string
			for _, p := range tc.plans {
				ids = append(ids, p.ID())
			}
			d := f.decide(t, named(ids...))
			g.Expect(d.Allowed).To(BeTrue())
			g.Expect(d.Reason).To(Equal(tc.reason))
			g.Expect(d.Limits).To(HaveLen(tc.limits))
			g.Expect(f.store.last == nil).To(Equal(tc.limits == 0), "Redis is asked only for others")
			g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="x",verdict="exempt"}`))
		})
	}
}

// An override that allows does so under a live block, in mode Closed without
// Redis, and at any cost.
func TestExemptFromEverything(t *testing.T) {
	g := NewWithT(t)
	strict := func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }
	f := newFixture(makePlan("a/x", keyed(apiKey), strict, threshold(1), fails(plan.FailClosed)))
	f.decide(t, named("a/x"))
	f.decide(t, named("a/x"))
	g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonBlocked))

	f.Use(plan.NewSnapshot(2, []*plan.Plan{
		makePlan("a/x", keyed(apiKey), strict, threshold(1), fails(plan.FailClosed), overridden(allow(keys("alice")))),
	}))
	g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonExempt))
	f.store.err = &script.StoreError{Cause: script.CauseTimeout, Err: context.DeadlineExceeded}
	dear := named("a/x")
	dear.Cost = 1000
	g.Expect(f.decide(t, dear).Reason).To(Equal(limiter.ReasonExempt))

	f.store.err = nil
	f.Use(plan.NewSnapshot(3, []*plan.Plan{makePlan("a/x", keyed(apiKey), strict, threshold(1))}))
	g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonBlocked), "the block was there all the time")
}

func TestDeniedByOverride(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(
		makePlan("a/admitted"), makePlan("a/attempts", counts), makePlan("a/shadow", mode(plan.ModeShadow)),
		makePlan("a/x", keyed(apiKey), overridden(deny(keys("alice")))),
		makePlan("a/mild", keyed(apiKey), mode(plan.ModeShadow), overridden(deny(keys("alice")))),
	)
	d := f.decide(t, named("a/admitted", "a/x", "a/attempts", "a/shadow"))
	g.Expect(d.Allowed).To(BeFalse())
	g.Expect([]string{string(d.Reason), d.Policy, d.Limit, d.Override}).To(Equal([]string{"DeniedByOverride", "a/x", "", "denied"}))
	g.Expect(d.Denial).To(Equal(plan.Denial{Code: "RateLimited", Message: "This caller is denied."}))
	g.Expect(d.RetryAfter).To(BeZero())
	g.Expect(d.Limits).To(HaveLen(3))
	g.Expect(usedOf(d)).To(Equal(map[string]int64{"a/admitted": 0, "a/attempts": 1, "a/shadow": 0}))

	d = f.decide(t, named("a/mild", "a/admitted"))
	g.Expect(d.Reason).To(Equal(limiter.ReasonAllowed), "Shadow counts what it would do, and nothing more")
	g.Expect(usedOf(d)).To(Equal(map[string]int64{"a/admitted": 1}))
	g.Expect(f.decide(t, named("a/mild")).Reason).To(Equal(limiter.ReasonAllowed))

	metrics := exposition(g, f.registry)
	g.Expect(metrics).To(ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="x",verdict="denied"}`))
	g.Expect(metrics).To(ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="mild",verdict="shadow_denied"}`))
	f.store.err = &script.StoreError{Cause: script.CauseTimeout, Err: context.DeadlineExceeded}
	g.Expect(f.decide(t, named("a/admitted", "a/x")).Reason).To(Equal(limiter.ReasonDeniedByOverride), "it needs no Redis")
}

// The first policy of the chain that refuses outright is the one that is named.
func TestRefusalsInOrder(t *testing.T) {
	g := NewWithT(t)
	keyless := makePlan("a/keyless", keyed(apiKey), missing(plan.MissingKeyDeny))
	denied := makePlan("a/denied", overridden(deny(when("true"))))
	f := newFixture(keyless, denied)
	check := func(ids ...string) *limiter.Check { return &limiter.Check{Policies: ids, Cost: 1} }
	d := f.decide(t, check("a/keyless", "a/denied"))
	g.Expect([]string{string(d.Reason), d.Policy, d.Override}).To(Equal([]string{"MissingKey", "a/keyless", ""}))
	d = f.decide(t, check("a/denied", "a/keyless"))
	g.Expect([]string{string(d.Reason), d.Policy, d.Override}).To(Equal([]string{"DeniedByOverride", "a/denied", "denied"}))
}

// Other numbers for some, on the state there is.
func TestLimitOverride(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", overridden(limits(
		plan.LimitOverride{Name: "burst", Threshold: 5, BlockMillis: 1000},
	)), func(p *plan.Plan) {
		p.Limits = append(p.Limits, plan.Limit{Name: "hour", Algorithm: plan.FixedWindow, Threshold: 100, WindowMillis: 3_600_000})
	}))
	as := func(principal string) *limiter.Check {
		return &limiter.Check{Policies: []string{"a/x"}, Key: []string{"k"}, Attributes: plan.Attributes{Principal: principal}, Cost: 1}
	}
	for range 3 {
		g.Expect(f.decide(t, as("")).Allowed).To(BeTrue())
	}
	g.Expect(f.decide(t, as("")).Reason).To(Equal(limiter.ReasonLimitExceeded))
	d := f.decide(t, as("gold"))
	g.Expect(d.Allowed).To(BeTrue(), "five are allowed, of which three are spent")
	g.Expect(d.Limits[0].Threshold).To(Equal(int64(5)))
	g.Expect(d.Limits[0].Used).To(Equal(int64(4)))
	g.Expect(d.Limits[0].Remaining).To(Equal(int64(1)))
	g.Expect([]string{d.Limits[0].Override, d.Limits[1].Override}).To(Equal([]string{"gold", "gold"}))
	g.Expect(d.Limits[1].Threshold).To(Equal(int64(100)), "what is not named keeps its numbers")
	g.Expect(f.decide(t, as("gold")).Allowed).To(BeTrue())
	g.Expect(f.decide(t, as("gold")).Reason).To(Equal(limiter.ReasonLimitExceeded))
	g.Expect(f.decide(t, as("")).Reason).To(Equal(limiter.ReasonBlocked), "a block is of the key, whoever started it")

	dear := as("gold")
	dear.Cost = 6
	g.Expect(f.decide(t, dear).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
	f.store.now = f.store.now.Add(time.Hour)
	dear = as("gold")
	dear.Cost = 4
	g.Expect(f.decide(t, dear).Allowed).To(BeTrue(), "a cost that fits the override only")
	dear = as("")
	dear.Cost = 4
	g.Expect(f.decide(t, dear).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
}

func TestLimitOverrideOfWindow(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", overridden(limits(plan.LimitOverride{Name: "burst", WindowMillis: 120_000}))))
	as := func(principal string) *limiter.Check {
		return &limiter.Check{Policies: []string{"a/x"}, Attributes: plan.Attributes{Principal: principal}, Cost: 1}
	}
	d := f.decide(t, as(""))
	g.Expect(d.Limits[0].Window).To(Equal(time.Minute))
	d = f.decide(t, as("gold"))
	g.Expect(d.Limits[0].Window).To(Equal(2 * time.Minute))
	g.Expect(d.Limits[0].Used).To(Equal(int64(1)), "another window is another count")
	g.Expect(d.Limits[0].ResetAfter).To(Equal(2*time.Minute + time.Millisecond))
	g.Expect(f.decide(t, as("")).Limits[0].Used).To(Equal(int64(2)))
}

func TestExpressionErrorsAreCounted(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", overridden(
		allow(when("true && false")), deny(when(`request.path.split("/")[5] == ""`)),
		// A plan of another release may hold what this one does not know.
		deny(when(`request.mood == "bad"`)),
		// Whoever fails is counted, also where a later one selects the caller.
		limits(plan.LimitOverride{Name: "burst", Threshold: 9}),
	)))
	check := named("a/x")
	check.Peek = true
	g.Expect(f.decide(t, check).Allowed).To(BeTrue())
	g.Expect(testutil.GatherAndCount(f.registry, "weir_expression_errors_total")).To(BeZero(), "peeks are not counted")
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
	gold := named("a/x")
	gold.Attributes.Principal = "gold"
	g.Expect(f.decide(t, gold).Limits[0].Threshold).To(Equal(int64(9)))
	g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP weir_expression_errors_total CEL expressions of policies that failed for a request.
# TYPE weir_expression_errors_total counter
weir_expression_errors_total{field="spec.overrides[1].when",namespace="a",policy="x"} 2
weir_expression_errors_total{field="spec.overrides[2].when",namespace="a",policy="x"} 2
`), "weir_expression_errors_total")).To(Succeed())
	f.Use(plan.NewSnapshot(2, nil))
	g.Expect(testutil.GatherAndCount(f.registry, "weir_expression_errors_total")).To(BeZero(), "the series of a/x are gone")
}

func usedOf(d *limiter.Decision) map[string]int64 {
	used := map[string]int64{}
	for _, l := range d.Limits {
		used[l.Policy] = l.Used
	}
	return used
}
