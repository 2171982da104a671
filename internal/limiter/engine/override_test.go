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

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
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

func countAttempts(p *plan.Plan) { p.Counting = plan.CountAttempts }

var apiKey = plan.KeyPart{Type: plan.KeyHeader, Header: "x-api-key"}

func withKey(value string) plan.Attributes {
	return plan.Attributes{Headers: map[string]string{"x-api-key": value}}
}

func from(address string) plan.Attributes {
	return plan.Attributes{RemoteAddress: netip.MustParseAddr(address)}
}

func TestOverrideSelectors(t *testing.T) {
	long := strings.Repeat("é", 255) // 510 bytes: Redis stores the key as a hash
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
		"an escaped key":           {keys("a%3Ab"), []plan.KeyPart{apiKey}, nil, withKey("a:b"), false},
		"a long given key":         {keys(long), []plan.KeyPart{apiKey}, []string{long}, plan.Attributes{}, true},
		"a long derived key":       {keys(long), []plan.KeyPart{apiKey}, nil, withKey(long), true},
		"a key with a long prefix": {keys(long), []plan.KeyPart{apiKey}, nil, withKey(long + "x"), false},
		"an address as the key":    {keys("192.0.2.7"), []plan.KeyPart{address}, nil, from("::ffff:192.0.2.7"), true},
		"a network as the key":     {keys("2001:db8::/64"), []plan.KeyPart{address}, nil, from("2001:db8::7"), true},

		"in a network":                       {cidrs("192.0.2.0/24", "10.0.0.0/8"), nil, nil, from("10.1.2.3"), true},
		"in no network":                      {cidrs("192.0.2.0/24", "10.0.0.0/8"), nil, nil, from("11.0.0.1"), false},
		"no address":                         {cidrs("0.0.0.0/0", "::/0"), nil, nil, plan.Attributes{}, false},
		"any IPv4 address":                   {cidrs("0.0.0.0/0"), nil, nil, from("11.0.0.1"), true},
		"an IPv6 address in no IPv4 network": {cidrs("0.0.0.0/0"), nil, nil, from("2001:db8::1"), false},
		"a mapped address is IPv4":           {cidrs("10.0.0.0/8"), nil, nil, from("::ffff:10.0.0.1"), true},
		"an IPv6 network":                    {cidrs("10.0.0.0/8", "2001:db8::/32"), nil, nil, from("2001:db8:1::1"), true},
		"an address with a zone":             {cidrs("fe80::/10"), nil, nil, from("fe80::1%eth0"), true},
		"a whole address":                    {cidrs("192.0.2.7/32", "2001:db8::1/128"), nil, nil, from("2001:db8::1"), true},
		"a neighbour of an address":          {cidrs("192.0.2.7/32"), nil, nil, from("192.0.2.8"), false},
		"between two networks":               {cidrs("10.0.0.0/9", "10.192.0.0/10"), nil, nil, from("10.128.0.1"), false},

		"a condition":                          {when(`principal.startsWith("gold-")`), nil, nil, plan.Attributes{Principal: "gold-1"}, true},
		"a condition that is false":            {when(`principal.startsWith("gold-")`), nil, nil, plan.Attributes{Principal: "silver"}, false},
		"a condition on absent attributes":     {when(`request.headers["x-tier"] == "" && remoteAddress == ""`), nil, nil, plan.Attributes{}, true},
		"a condition that fails":               {when(`request.path.split("/")[5] != "x"`), nil, nil, plan.Attributes{Path: "/a"}, false},
		"a condition on normalized attributes": {when(`request.host == "a.example" && request.path == "/b"`), nil, nil, plan.Attributes{Host: "A.example:80", Path: "/a/../b?c"}, true},

		"all selectors":                   {all, []plan.KeyPart{apiKey}, nil, request("acme", "10.0.0.1", "get"), true},
		"all but the key":                 {all, []plan.KeyPart{apiKey}, nil, request("globex", "10.0.0.1", "GET"), false},
		"all but the network":             {all, []plan.KeyPart{apiKey}, nil, request("acme", "11.0.0.1", "GET"), false},
		"all but the condition":           {all, []plan.KeyPart{apiKey}, nil, request("acme", "10.0.0.1", "PUT"), false},
		"all selectors, with a given key": {all, []plan.KeyPart{apiKey}, []string{"acme"}, request("", "10.0.0.1", "GET"), true},
		"all but the given key":           {all, []plan.KeyPart{apiKey}, []string{"x"}, request("acme", "10.0.0.1", "GET"), false},
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
		"allowed before denied":                  {[]plan.Override{allow(when("true")), deny(when("true"))}, limiter.ReasonExempt},
		"denied before allowed":                  {[]plan.Override{deny(when("true")), allow(when("true"))}, limiter.ReasonDeniedByOverride},
		"the first that selects the request":     {[]plan.Override{allow(when("false")), deny(when("true"))}, limiter.ReasonDeniedByOverride},
		"limited before denied":                  {[]plan.Override{{Name: "l", When: "true", Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "burst", Threshold: 1}}}, deny(when("true"))}, limiter.ReasonAllowed},
		"a condition that fails selects nothing": {[]plan.Override{allow(when(`request.path.split("/")[5] == ""`)), deny(when("true"))}, limiter.ReasonDeniedByOverride},
		"no override":                            {[]plan.Override{allow(when("false")), deny(keys("x"))}, limiter.ReasonAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(makePlan("a/x", keyed(apiKey), overridden(tc.overrides...)))
			NewWithT(t).Expect(f.decide(t, named("a/x")).Reason).To(Equal(tc.want))
		})
	}
}

// Overrides apply before onMissingKey, and to checks that name no policy.
func TestOverridesApplyBeforeMissingKey(t *testing.T) {
	office := cidrs("10.0.0.0/8")
	matched := matching(plan.Match{Paths: []string{"/*"}})
	for name, tc := range map[string]struct {
		edits      []func(*plan.Plan)
		attributes plan.Attributes
		want       limiter.Reason
	}{
		"matched":                       {[]func(*plan.Plan){overridden(deny(office))}, from("10.0.0.1"), limiter.ReasonDeniedByOverride},
		"not selected":                  {[]func(*plan.Plan){overridden(deny(office))}, from("11.0.0.1"), limiter.ReasonAllowed},
		"allowed without a key":         {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeyDeny), overridden(allow(office))}, from("10.0.0.1"), limiter.ReasonExempt},
		"denied without a key":          {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeySkip), overridden(deny(office))}, from("10.0.0.1"), limiter.ReasonDeniedByOverride},
		"limited without a key":         {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeyDeny), overridden(limits(plan.LimitOverride{Name: "burst", Threshold: 9}))}, plan.Attributes{Principal: "gold"}, limiter.ReasonMissingKey},
		"not selected without a key":    {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeyDeny), overridden(allow(office))}, from("11.0.0.1"), limiter.ReasonMissingKey},
		"skipped although not selected": {[]func(*plan.Plan){keyed(apiKey), missing(plan.MissingKeySkip), overridden(deny(office))}, from("11.0.0.1"), limiter.ReasonNoPolicy},
		"disabled policy":               {[]func(*plan.Plan){mode(plan.ModeDisabled), overridden(deny(office))}, from("10.0.0.1"), limiter.ReasonNoPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(makePlan("a/x", append(tc.edits, matched)...))
			tc.attributes.Path = "/a"
			NewWithT(t).Expect(f.decide(t, &limiter.Check{Cost: 1, Attributes: tc.attributes}).Reason).To(Equal(tc.want))
		})
	}
}

func TestAllowingOverrideExempts(t *testing.T) {
	exempt := overridden(allow(keys("alice")))
	for name, tc := range map[string]struct {
		plans  []*plan.Plan
		reason limiter.Reason
		limits int
	}{
		"alone":                     {[]*plan.Plan{makePlan("a/x", keyed(apiKey), exempt)}, limiter.ReasonExempt, 0},
		"beside a disabled policy":  {[]*plan.Plan{makePlan("a/x", keyed(apiKey), exempt), makePlan("a/y", mode(plan.ModeDisabled))}, limiter.ReasonExempt, 0},
		"in mode Shadow":            {[]*plan.Plan{makePlan("a/x", keyed(apiKey), mode(plan.ModeShadow), exempt)}, limiter.ReasonExempt, 0},
		"beside an enforced policy": {[]*plan.Plan{makePlan("a/x", keyed(apiKey), exempt), makePlan("a/y")}, limiter.ReasonAllowed, 1},
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
			g.Expect(f.store.last == nil).To(Equal(tc.limits == 0), "only other policies need Redis")
			g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="x",verdict="exempt"}`))
		})
	}
}

// blocking is a policy that admits one unit and then blocks the key, and fails closed.
func blocking(edits ...func(*plan.Plan)) *plan.Plan {
	block := func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }
	return makePlan("a/x", append(edits, keyed(apiKey), block, threshold(1), fails(plan.FailClosed))...)
}

var exemptAlice = overridden(allow(keys("alice")))

func TestAllowingOverrideSuspendsABlock(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(blocking())
	f.decide(t, named("a/x"))
	f.decide(t, named("a/x"))
	g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonBlocked))
	f.Use(index.NewSnapshot(2, []*plan.Plan{blocking(exemptAlice)}))
	g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonExempt))
	f.Use(index.NewSnapshot(3, []*plan.Plan{blocking()}))
	g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonBlocked), "the override does not end the block")
}

func TestAllowingOverrideNeedsNoRedis(t *testing.T) {
	f := newFixture(blocking(exemptAlice))
	f.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	NewWithT(t).Expect(f.decide(t, costing(1)).Reason).To(Equal(limiter.ReasonExempt))
}

func TestAllowingOverrideAllowsAnyCost(t *testing.T) {
	NewWithT(t).Expect(newFixture(blocking(exemptAlice)).decide(t, costing(1000)).Reason).To(Equal(limiter.ReasonExempt))
}

var denyAlice = overridden(deny(keys("alice")))

func TestDenyingOverrideDenies(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", keyed(apiKey), denyAlice))
	d := f.decide(t, named("a/x"))
	g.Expect(d.Allowed).To(BeFalse())
	g.Expect([]string{string(d.Reason), d.Policy, d.Limit, d.Override}).To(Equal([]string{"DeniedByOverride", "a/x", "", "denied"}))
	g.Expect(d.Denial).To(Equal(plan.Denial{Code: "RateLimited", Message: "This client is denied."}))
	g.Expect(d.RetryAfter).To(BeZero())
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="x",verdict="denied"}`))
}

// Only policies that count attempts are charged when an override denies the chain.
func TestDenyingOverrideChargesAttempts(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(
		makePlan("a/admitted"), makePlan("a/attempts", countAttempts), makePlan("a/shadow", mode(plan.ModeShadow)),
		makePlan("a/x", keyed(apiKey), denyAlice),
	)
	d := f.decide(t, named("a/admitted", "a/x", "a/attempts", "a/shadow"))
	g.Expect([]string{string(d.Reason), d.Policy}).To(Equal([]string{"DeniedByOverride", "a/x"}))
	g.Expect(d.Limits).To(HaveLen(3))
	g.Expect(usedOf(d)).To(Equal(map[string]int64{"a/admitted": 0, "a/attempts": 1, "a/shadow": 0}))
}

func TestDenyingOverrideInShadowOnlyCounts(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/admitted"), makePlan("a/mild", keyed(apiKey), mode(plan.ModeShadow), denyAlice))
	d := f.decide(t, named("a/mild", "a/admitted"))
	g.Expect(d.Reason).To(Equal(limiter.ReasonAllowed))
	g.Expect(usedOf(d)).To(Equal(map[string]int64{"a/admitted": 1}))
	g.Expect(f.decide(t, named("a/mild")).Reason).To(Equal(limiter.ReasonAllowed))
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="mild",verdict="shadow_denied"}`))
}

func TestDenyingOverrideNeedsNoRedis(t *testing.T) {
	f := newFixture(makePlan("a/admitted"), makePlan("a/x", keyed(apiKey), denyAlice))
	f.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	NewWithT(t).Expect(f.decide(t, named("a/admitted", "a/x")).Reason).To(Equal(limiter.ReasonDeniedByOverride))
}

// A missing key and an override deny without the store.
func TestFirstDenialOfTheChainIsReported(t *testing.T) {
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

// goldAllowsFive returns an engine with the limits burst of 3 a minute and hour of 100 an hour.
// The override for the principal gold has a burst of 5 and a block of one second.
func goldAllowsFive() *fixture {
	return newFixture(makePlan("a/x", overridden(limits(
		plan.LimitOverride{Name: "burst", Threshold: 5, BlockMillis: 1000},
	)), func(p *plan.Plan) {
		p.Limits = append(p.Limits, plan.Limit{Name: "hour", Algorithm: plan.FixedWindow, Threshold: 100, WindowMillis: 3_600_000})
	}))
}

func as(principal string, cost int64) *limiter.Check {
	return &limiter.Check{Policies: []string{"a/x"}, Key: []string{"k"}, Attributes: plan.Attributes{Principal: principal}, Cost: cost}
}

func TestLimitOverrideKeepsTheCounter(t *testing.T) {
	g := NewWithT(t)
	f := goldAllowsFive()
	for range 3 {
		g.Expect(f.decide(t, as("", 1)).Allowed).To(BeTrue())
	}
	g.Expect(f.decide(t, as("", 1)).Reason).To(Equal(limiter.ReasonLimitExceeded))
	d := f.decide(t, as("gold", 1))
	g.Expect(d.Allowed).To(BeTrue(), "3 of 5 units are used")
	g.Expect(d.Limits[0].Threshold).To(Equal(int64(5)))
	g.Expect(d.Limits[0].Used).To(Equal(int64(4)))
	g.Expect(d.Limits[0].Remaining).To(Equal(int64(1)))
	g.Expect(f.decide(t, as("gold", 1)).Allowed).To(BeTrue())
	g.Expect(f.decide(t, as("gold", 1)).Reason).To(Equal(limiter.ReasonLimitExceeded))
}

func TestLimitOverrideKeepsOtherLimits(t *testing.T) {
	g := NewWithT(t)
	d := goldAllowsFive().decide(t, as("gold", 1))
	g.Expect([]string{d.Limits[0].Override, d.Limits[1].Override}).To(Equal([]string{"gold", "gold"}))
	g.Expect(d.Limits[1].Threshold).To(Equal(int64(100)))
}

func TestBlockOfALimitOverrideBlocksTheKey(t *testing.T) {
	g := NewWithT(t)
	f := goldAllowsFive()
	g.Expect(f.decide(t, as("gold", 5)).Allowed).To(BeTrue())
	g.Expect(f.decide(t, as("gold", 1)).Reason).To(Equal(limiter.ReasonLimitExceeded))
	g.Expect(f.decide(t, as("", 1)).Reason).To(Equal(limiter.ReasonBlocked), "the block applies to requests without the override")
}

func TestLimitOverrideBoundsTheCost(t *testing.T) {
	g := NewWithT(t)
	f := goldAllowsFive()
	g.Expect(f.decide(t, as("gold", 6)).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
	g.Expect(f.decide(t, as("gold", 4)).Allowed).To(BeTrue())
	g.Expect(f.decide(t, as("", 4)).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
}

func TestLimitOverrideWithAnotherWindowHasItsOwnCounter(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", overridden(limits(plan.LimitOverride{Name: "burst", WindowMillis: 120_000}))))
	d := f.decide(t, as("", 1))
	g.Expect(d.Limits[0].Window).To(Equal(time.Minute))
	d = f.decide(t, as("gold", 1))
	g.Expect(d.Limits[0].Window).To(Equal(2 * time.Minute))
	g.Expect(d.Limits[0].Used).To(Equal(int64(1)))
	g.Expect(d.Limits[0].ResetAfter).To(Equal(2 * time.Minute))
	g.Expect(f.decide(t, as("", 1)).Limits[0].Used).To(Equal(int64(2)))
}

func usedOf(d *limiter.Decision) map[string]int64 {
	used := map[string]int64{}
	for _, l := range d.Limits {
		used[l.Policy] = l.Used
	}
	return used
}
