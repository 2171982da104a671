// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

const (
	fixed         = v1alpha1.AlgorithmFixedWindow
	slidingLog    = v1alpha1.AlgorithmSlidingLog
	slidingWindow = v1alpha1.AlgorithmSlidingWindow
	tokenBucket   = v1alpha1.AlgorithmTokenBucket
	gcra          = v1alpha1.AlgorithmGCRA
	shed          = v1alpha1.AlgorithmSuppressed
	concurrency   = v1alpha1.AlgorithmConcurrency
)

type builder = testpolicy.Builder

func policy() *builder { return testpolicy.Make("shop/p") }

func planOf(t *testing.T, b *builder) *plan.Plan {
	t.Helper()
	compiled, problems := compile.Compile(b.Obj(), compile.Everything(), time.Time{})
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	return compiled
}

// expect compares the beginnings of the warnings, which name the field, with want.
func expect(t *testing.T, warnings []string, want ...string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(warnings).To(HaveLen(len(want)), "%q", warnings)
	for i := range want {
		g.Expect(warnings[i]).To(HavePrefix(want[i]))
	}
}

func change(limits ...v1alpha1.LimitOverride) func(*v1alpha1.Override) {
	return func(o *v1alpha1.Override) { o.Limits = limits }
}

func override(name string, set ...func(*v1alpha1.Override)) v1alpha1.Override {
	o := v1alpha1.Override{Name: name, Action: v1alpha1.OverrideActionLimit}
	for _, f := range set {
		f(&o)
	}
	if len(o.Limits) == 0 {
		o.Action = v1alpha1.OverrideActionAllow
	}
	return o
}

func keys(k ...string) func(*v1alpha1.Override) { return func(o *v1alpha1.Override) { o.Keys = k } }

func groups(names ...string) func(*v1alpha1.Override) {
	return func(o *v1alpha1.Override) { o.Groups = names }
}

func cidrs(c ...string) func(*v1alpha1.Override) { return func(o *v1alpha1.Override) { o.CIDRs = c } }

func when(text string) func(*v1alpha1.Override) { return func(o *v1alpha1.Override) { o.When = text } }

func TestUnusedOverrides(t *testing.T) {
	const cel, other = `request.method == "GET"`, `request.method == "PUT"`
	unused := "spec.overrides[1] (b) is unused: spec.overrides[0] (a) comes first"
	tests := map[string]struct {
		overrides []v1alpha1.Override
		want      []string
	}{
		"one":                                    {[]v1alpha1.Override{override("a", keys("x"))}, nil},
		"other keys":                             {[]v1alpha1.Override{override("a", keys("x")), override("b", keys("y"))}, nil},
		"fewer keys":                             {[]v1alpha1.Override{override("a", keys("x", "y")), override("b", keys("y"))}, []string{unused}},
		"more keys":                              {[]v1alpha1.Override{override("a", keys("x")), override("b", keys("x", "y"))}, nil},
		"fewer groups":                           {[]v1alpha1.Override{override("a", groups("x", "y")), override("b", groups("y"))}, []string{unused}},
		"more groups":                            {[]v1alpha1.Override{override("a", groups("x")), override("b", groups("x", "y"))}, nil},
		"keys after a group":                     {[]v1alpha1.Override{override("a", groups("x")), override("b", keys("x"))}, nil},
		"a group after keys":                     {[]v1alpha1.Override{override("a", keys("x")), override("b", groups("x"))}, nil},
		"a group after networks":                 {[]v1alpha1.Override{override("a", cidrs("10.0.0.0/8")), override("b", groups("x"))}, nil},
		"keys after networks":                    {[]v1alpha1.Override{override("a", cidrs("0.0.0.0/0")), override("b", keys("x"))}, nil},
		"a network within":                       {[]v1alpha1.Override{override("a", cidrs("10.0.0.0/8")), override("b", cidrs("10.1.0.0/16"))}, []string{unused}},
		"a network around":                       {[]v1alpha1.Override{override("a", cidrs("10.1.0.0/16")), override("b", cidrs("10.0.0.0/8"))}, nil},
		"another network":                        {[]v1alpha1.Override{override("a", cidrs("10.0.0.0/8")), override("b", cidrs("11.0.0.0/8"))}, nil},
		"another family":                         {[]v1alpha1.Override{override("a", cidrs("::/0")), override("b", cidrs("10.0.0.0/8"))}, nil},
		"one of two networks outside":            {[]v1alpha1.Override{override("a", cidrs("10.0.0.0/8")), override("b", cidrs("10.1.0.0/16", "11.0.0.0/8"))}, nil},
		"more selectors":                         {[]v1alpha1.Override{override("a", keys("x")), override("b", keys("x"), cidrs("10.0.0.0/8"), when(cel))}, []string{unused}},
		"fewer selectors":                        {[]v1alpha1.Override{override("a", keys("x"), cidrs("10.0.0.0/8")), override("b", keys("x"))}, nil},
		"the same expression":                    {[]v1alpha1.Override{override("a", when(cel)), override("b", when(cel), keys("x"))}, []string{unused}},
		"another expression":                     {[]v1alpha1.Override{override("a", when(cel)), override("b", when(other))}, nil},
		"no expression after one":                {[]v1alpha1.Override{override("a", when(cel), keys("x")), override("b", keys("x"))}, nil},
		"covered only by two overrides together": {[]v1alpha1.Override{override("a", keys("x")), override("b", keys("y")), override("c", keys("x", "y"))}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := policy().Key(testpolicy.PrincipalPart()).Limit("l", fixed, 5, "1m").Override(tc.overrides...)
			expect(t, unusedOverrides(planOf(t, p)), tc.want...)
		})
	}
}

func TestIneffectiveLimits(t *testing.T) {
	second := "spec.limits[1] (b) is ineffective: spec.limits[0] (a) is always tighter"
	first := "spec.limits[0] (a) is ineffective: spec.limits[1] (b) is always tighter"
	block := testpolicy.BlockDuration("1h")
	tests := map[string]struct {
		policy *builder
		want   []string
	}{
		"burst and daily, both effective": {policy().Limit("a", slidingLog, 5, "1m").Limit("b", slidingLog, 20, "24h"), nil},
		"a day that minutes never fill":   {policy().Limit("a", slidingLog, 5, "1m").Limit("b", slidingLog, 7200, "24h"), []string{second}},
		"a day that minutes just fill":    {policy().Limit("a", slidingLog, 5, "1m").Limit("b", slidingLog, 7199, "24h"), nil},
		"a longer window, fewer units":    {policy().Limit("a", slidingLog, 10, "1m").Limit("b", slidingLog, 5, "1h"), []string{first}},
		"fixed windows may meet":          {policy().Limit("a", fixed, 5, "1m").Limit("b", slidingLog, 7200, "24h"), nil},
		"fixed windows and one more":      {policy().Limit("a", fixed, 5, "1m").Limit("b", slidingLog, 7205, "24h"), []string{second}},
		"fixed in a fixed one":            {policy().Limit("a", fixed, 10, "1h").Limit("b", fixed, 20, "30m"), []string{second}},
		"the same fixed window":           {policy().Limit("a", fixed, 5, "1m").Limit("b", fixed, 6, "1m"), []string{second}},
		"two equal limits":                {policy().Limit("a", gcra, 5, "1m").Limit("b", gcra, 5, "1m"), []string{second}},
		"buckets remember longer":         {policy().Limit("a", slidingLog, 60, "1h").Limit("b", slidingWindow, 60, "1h"), []string{first}},
		"buckets, with room":              {policy().Limit("a", slidingLog, 60, "1h").Limit("b", slidingWindow, 120, "1h"), []string{second}},
		"the same buckets":                {policy().Limit("a", slidingWindow, 60, "1h").Limit("b", slidingWindow, 61, "1h"), []string{second}},
		"a bucket and a day":              {policy().Limit("a", tokenBucket, 10, "1m").Limit("b", fixed, 14410, "24h"), []string{second}},
		"a bucket and a day, effective":   {policy().Limit("a", tokenBucket, 10, "1m").Limit("b", fixed, 14409, "24h"), nil},
		"a slower, smaller bucket":        {policy().Limit("a", tokenBucket, 10, "1m").Limit("b", gcra, 10, "1s", testpolicy.Burst(10)), []string{second}},
		"a slower bucket that is larger":  {policy().Limit("a", tokenBucket, 10, "1m", testpolicy.Burst(11)).Limit("b", gcra, 10, "1s", testpolicy.Burst(10)), nil},
		"a bucket after a window":         {policy().Limit("a", slidingLog, 1, "1h").Limit("b", tokenBucket, 1000, "1h"), nil},
		"shedding":                        {policy().Limit("a", shed, 5, "1m").Limit("b", slidingLog, 90000, "1m"), nil},
		"before shedding":                 {policy().Limit("a", slidingLog, 5, "1m").Limit("b", shed, 90000, "1m"), nil},
		"a block of its own":              {policy().Limit("a", slidingLog, 5, "1m").Limit("b", slidingLog, 7200, "24h", block), nil},
		"a shorter block":                 {policy().Limit("a", slidingLog, 5, "1m", block).Limit("b", slidingLog, 7200, "24h", testpolicy.BlockDuration("1m")), []string{second}},
		"attempts":                        {policy().Limit("a", slidingLog, 5, "1m").Limit("b", slidingLog, 7200, "24h").Counting(v1alpha1.CountingAttempts), nil},
		"attempts in one window":          {policy().Limit("a", slidingLog, 5, "1m").Limit("b", slidingLog, 6, "1m").Counting(v1alpha1.CountingAttempts), []string{second}},
		"calendars":                       {calendars("Day", 5, "Day", 5), []string{second}},
		"other periods":                   {calendars("Day", 5, "Month", 500), nil},
		"a calendar and window":           {policy().Limit("a", fixed, 5, "24h").Limit("b", fixed, 5, "24h").Edit(1, inCalendar("Day")), nil},
		"a log and a calendar":            {policy().Limit("a", slidingLog, 1, "720h").Limit("b", fixed, 500, "24h").Edit(1, inCalendar("Day")), nil},
		"with a looser override": {
			policy().Key(testpolicy.PrincipalPart()).Limit("a", slidingLog, 5, "1m").Limit("b", slidingLog, 7200, "24h").
				Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "a", Threshold: new(int64(6))}))), nil,
		},
		"with a tighter override": {
			policy().Key(testpolicy.PrincipalPart()).Limit("a", slidingLog, 5, "1m").Limit("b", slidingLog, 7200, "24h").
				Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "a", Threshold: new(int64(4))}))),
			[]string{second},
		},
		"with other windows for some": {
			policy().Key(testpolicy.PrincipalPart()).Limit("a", fixed, 5, "1m").Limit("b", fixed, 7, "1m").
				Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "a", Window: "2m"}))), nil,
		},
		"with another rate for some": {
			policy().Key(testpolicy.PrincipalPart()).Limit("a", tokenBucket, 5, "1m").Limit("b", tokenBucket, 7, "1m").
				Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "a", Threshold: new(int64(4))}))), nil,
		},
		"largest numbers": {policy().Limit("a", fixed, plan.MaxFixedWindowThreshold, "1ms").Limit("b", slidingWindow, plan.MaxThreshold, "720h"), []string{first}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { expect(t, ineffectiveLimits(planOf(t, tc.policy)), tc.want...) })
	}
}

func TestCatchAllMatches(t *testing.T) {
	catchAll := "spec.matches[0] is a catch-all match"
	tests := map[string]struct {
		match v1alpha1.Match
		mode  v1alpha1.Mode
		want  []string
	}{
		"every path":                {v1alpha1.Match{Paths: []string{"/*"}}, v1alpha1.ModeEnforce, []string{catchAll}},
		"every path and more":       {v1alpha1.Match{Paths: []string{"/a", "/*"}, When: " true "}, v1alpha1.ModeEnforce, []string{catchAll}},
		"true":                      {v1alpha1.Match{When: "true"}, v1alpha1.ModeEnforce, []string{catchAll}},
		"true, in mode Shadow":      {v1alpha1.Match{When: "true"}, v1alpha1.ModeShadow, nil},
		"a host":                    {v1alpha1.Match{Hosts: []string{"*.x"}, Paths: []string{"/*"}}, v1alpha1.ModeEnforce, nil},
		"a method":                  {v1alpha1.Match{Methods: []string{"GET"}, Paths: []string{"/*"}}, v1alpha1.ModeEnforce, nil},
		"a domain":                  {v1alpha1.Match{Domain: "d", Paths: []string{"/*"}}, v1alpha1.ModeEnforce, nil},
		"a descriptor":              {v1alpha1.Match{Descriptors: []v1alpha1.DescriptorMatch{{Key: "k"}}}, v1alpha1.ModeEnforce, nil},
		"some paths":                {v1alpha1.Match{Paths: []string{"/a*"}}, v1alpha1.ModeEnforce, nil},
		"an expression that may be": {v1alpha1.Match{When: `request.method == "GET"`}, v1alpha1.ModeEnforce, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			expect(t, catchAllMatches(planOf(t, policy().Mode(tc.mode).Match(tc.match).Limit("l", fixed, 5, "1m"))), tc.want...)
		})
	}
	expect(t, catchAllMatches(planOf(t, policy().Limit("l", fixed, 5, "1m")))) // applies only to checks that name it
}

func TestDroppedCounters(t *testing.T) {
	limits := func() *builder {
		return policy().Key(testpolicy.PrincipalPart()).Limit("a", fixed, 5, "1m").Limit("b", slidingWindow, 60, "1h").Limit("c", slidingLog, 7, "1h")
	}
	daily := func(zone string) *builder {
		return limits().Edit(0, func(l *v1alpha1.Limit) {
			l.Window, l.Calendar = "", &v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodDay, TimeZone: zone}
		})
	}
	tokens := func(o ...v1alpha1.Override) *builder {
		return policy().Key(testpolicy.PrincipalPart()).Limit("a", tokenBucket, 5, "1m").Override(o...)
	}
	rate := func(threshold int64) func(*v1alpha1.Override) {
		return change(v1alpha1.LimitOverride{Name: "a", Threshold: &threshold})
	}
	tests := map[string]struct {
		was, is *builder
		want    []string
	}{
		"nothing": {limits(), limits(), nil},
		"thresholds": {
			limits(),
			policy().Key(testpolicy.PrincipalPart()).Limit("a", fixed, 9, "1m").Limit("b", slidingWindow, 9, "1h").Limit("c", slidingLog, 9, "1h"),
			nil,
		},
		"the same lengths in other units": {limits(), policy().Key(testpolicy.PrincipalPart()).Limit("a", fixed, 5, "60s").
			Limit("b", slidingWindow, 60, "60m", testpolicy.Bucket("1m")).Limit("c", slidingLog, 7, "1h"), nil},
		"a window": {limits(), limits().Edit(0, func(l *v1alpha1.Limit) { l.Window = "2m" }), []string{"spec.limits[0].window: the change resets the counters of limit a"}},
		"a calendar": {
			limits(), limits().Edit(0, func(l *v1alpha1.Limit) { l.Window, l.Calendar = "", &v1alpha1.Calendar{Period: "Day"} }),
			[]string{"spec.limits[0].calendar: the change resets the counters of limit a"},
		},
		"another time zone": {
			daily("Europe/Berlin"), daily("Asia/Beirut"), []string{"spec.limits[0].calendar: the change resets the counters of limit a"},
		},
		"the same calendar": {daily("UTC"), daily(""), nil},
		"a window in place of a calendar": {
			daily("UTC"), limits().Edit(0, func(l *v1alpha1.Limit) { l.Window = "24h" }), []string{"spec.limits[0].window: the change resets the counters of limit a"},
		},
		"a bucket":                {limits(), limits().Edit(1, func(l *v1alpha1.Limit) { l.Bucket = "2m" }), []string{"spec.limits[1].bucket: the change resets the counters of limit b"}},
		"algorithm":               {limits(), limits().Edit(0, func(l *v1alpha1.Limit) { l.Algorithm = gcra }), []string{"spec.limits[0].algorithm: the change resets the counters of limit a"}},
		"a name":                  {limits(), limits().Edit(1, func(l *v1alpha1.Limit) { l.Name = "z" }), []string{"spec.limits[1].name: the change resets the counters of limit b"}},
		"a log keeps what it has": {limits(), limits().Edit(2, func(l *v1alpha1.Limit) { l.Name, l.Window = "z", "2h" }), nil},
		"an added limit":          {policy().Limit("a", fixed, 5, "1m"), policy().Limit("a", fixed, 5, "1m").Limit("b", fixed, 5, "1m"), nil},
		"a removed limit":         {policy().Limit("a", fixed, 5, "1m").Limit("b", fixed, 5, "1m"), policy().Limit("a", fixed, 5, "1m"), nil},
		"another limit":           {policy().Limit("a", fixed, 5, "1m"), policy().Limit("b", fixed, 5, "1h"), nil},
		"the key":                 {policy().Key(testpolicy.PrincipalPart()).Limit("a", fixed, 5, "1m"), policy().Key(testpolicy.HeaderPart("x")).Limit("a", fixed, 5, "1h"), []string{"spec.key: "}},
		"no key":                  {policy().Key(testpolicy.PrincipalPart()).Limit("a", fixed, 5, "1m"), policy().Limit("a", fixed, 5, "1m"), []string{"spec.key: "}},
		"a header in another case": {
			policy().Key(testpolicy.HeaderPart("X-Key")).Limit("a", fixed, 5, "1m"),
			policy().Key(testpolicy.HeaderPart("x-key")).Limit("a", fixed, 5, "1m"), nil,
		},
		"a window of an override": {
			limits().Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "a", Window: "2m"}))),
			limits().Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "a", Window: "3m"}))),
			[]string{"spec.overrides[0].limits[0].window: the change resets the counters of limit a for the callers of override o"},
		},
		"a window that an override no longer changes": {
			limits().Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "a", Window: "2m"}))),
			limits().Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "a", Threshold: new(int64(9))}))),
			[]string{"spec.overrides[0].limits[0].window: "},
		},
		"a window, for all callers": {
			limits().Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "b", Threshold: new(int64(9))}))),
			limits().Edit(0, func(l *v1alpha1.Limit) { l.Window = "2m" }).
				Override(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "b", Threshold: new(int64(8))}))),
			[]string{"spec.limits[0].window: "},
		},
		"another rate for some, edited":  {tokens(override("o", keys("x"), rate(9))), tokens(override("o", keys("x"), rate(8))), nil},
		"another rate for some, renamed": {tokens(override("o", keys("x"), rate(9))), tokens(override("q", keys("x"), rate(9))), []string{"spec.overrides[0].name: the change resets the counters of limit a for the callers of override o"}},
		"another rate for some, new": {
			tokens(override("o", keys("x"), change(v1alpha1.LimitOverride{Name: "a", Burst: new(int64(9))}))),
			tokens(override("o", keys("x"), rate(9))),
			[]string{"spec.overrides[0].limits[0].threshold: "},
		},
		"an added override": {tokens(override("o", keys("x"), rate(9))), tokens(override("o", keys("x"), rate(9)), override("q", keys("x"), rate(9))), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { expect(t, DroppedCounters(planOf(t, tc.was), planOf(t, tc.is)), tc.want...) })
	}
}

// inCalendar gives a limit a calendar in place of its window.
func inCalendar(period v1alpha1.CalendarPeriod) func(*v1alpha1.Limit) {
	return func(l *v1alpha1.Limit) { l.Window, l.Calendar = "", &v1alpha1.Calendar{Period: period} }
}

// calendars returns a policy with two limits.
func calendars(a v1alpha1.CalendarPeriod, thresholdA int64, b v1alpha1.CalendarPeriod, thresholdB int64) *builder {
	return policy().Limit("a", fixed, thresholdA, "").Limit("b", fixed, thresholdB, "").Edit(0, inCalendar(a)).Edit(1, inCalendar(b))
}

func TestUnheldMatches(t *testing.T) {
	calls := func() *builder {
		return policy().Limit("rate", fixed, 5, "1m").Limit("inflight", concurrency, 5, "").Reservations("1m", 5)
	}
	expect(t, OfPlan(planOf(t, calls())))
	expect(t, OfPlan(planOf(t, calls().Match(v1alpha1.Match{Methods: []string{"GET"}}))), "spec.limits[1] (inflight) counts only reservations")
}

// Of two limits of units at once only the smaller one has an effect. Others are not comparable.
func TestIneffectiveConcurrency(t *testing.T) {
	expect(t, ineffectiveLimits(planOf(t, policy().Limit("a", concurrency, 5, "").Limit("b", concurrency, 6, "").Reservations("1m", 5))),
		"spec.limits[1] (b) is ineffective")
	for _, other := range []v1alpha1.Algorithm{fixed, slidingLog, gcra, tokenBucket} {
		for _, thresholds := range [][2]int64{{1, 1000}, {1000, 1}} {
			p := policy().Limit("a", concurrency, thresholds[0], "").Limit("b", other, thresholds[1], "1m")
			expect(t, ineffectiveLimits(planOf(t, p.Reservations("1m", 5))))
		}
	}
}

// An expression that is evaluated for each descriptor can alone take more than the time of its Namespace; one that only reads
// entries cannot, and neither can one of a match without descriptors.
func TestExpressionsOfEachDescriptor(t *testing.T) {
	with := func(when string, descriptors ...v1alpha1.DescriptorMatch) *plan.Plan {
		return planOf(t, policy().Limit("l", fixed, 1, "1s").Match(v1alpha1.Match{Domain: "edge", Descriptors: descriptors, When: when}))
	}
	const pattern = `descriptor["path"].matches("^/api/.*/action$")`
	path := v1alpha1.DescriptorMatch{Key: "path"}
	expect(t, OfPlan(with(`descriptor["path"] != "/"`, path)))
	expect(t, OfPlan(with(pattern)))
	warnings := OfPlan(with(pattern, path))
	expect(t, warnings, "spec.matches[0].when is the most expensive expression (")
	NewWithT(t).Expect(warnings[0]).To(MatchRegexp(`for each descriptor that it matches: if a call has more than \d+ of them, its failureMode decides \(ExpressionsOverBudget\)`))
}

func TestExpensiveExpressions(t *testing.T) {
	const cheap, expensive = `request.headers.exists(n, n == "x")`, `request.path.split("/").exists(s, s == "x" || s == "y")`
	with := func(expressions ...string) *builder {
		b := policy().Limit("l", fixed, 1, "1s").Key(v1alpha1.KeyPart{
			Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: "principal"},
		})
		for i, when := range expressions {
			b = b.Override(v1alpha1.Override{Name: fmt.Sprint("o", i), When: when, Action: v1alpha1.OverrideActionDeny})
		}
		return b.Match(v1alpha1.Match{When: `request.path == "/"`})
	}
	expect(t, OfPlan(planOf(t, with(cheap, expensive))))
	warnings := OfPlan(planOf(t, with(cheap, expensive, cheap+" ", cheap+"  ", "  "+cheap, " "+cheap, "   "+cheap)))
	expect(t, warnings, "spec.overrides[1].when is the most expensive expression (")
	NewWithT(t).Expect(warnings[0]).To(MatchRegexp(
		`\(\d+ µs\) of the policy: all may take \d+ µs for the most expensive request, [5-9]\d% of the 1 ms that a policy may take$`))
	NewWithT(t).Expect(FieldOf(warnings[0])).To(Equal("spec.overrides[1].when"))
}

// A fact that no proxy passes on makes one budget of all clients, or an expression that never holds.
func TestUnreadFacts(t *testing.T) {
	of := func(cel string) v1alpha1.KeyPart {
		return v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: cel}}
	}
	on := func(match v1alpha1.Match, parts ...v1alpha1.KeyPart) *builder {
		return policy().Limit("l", fixed, 1, "1s").Match(match).Key(parts...)
	}
	get := v1alpha1.Match{Methods: []string{"GET"}}
	expect(t, OfPlan(planOf(t, on(get, of(`request.headers["x-tier"] + request.headers["via"]`)))))
	for cel, advice := range map[string]string{
		`request.headers["x-forwarded-for"]`:                           "use remoteAddress",
		`request.headers["X-Forwarded-Host"] + principal`:              "use request.host",
		`"host" in request.headers ? request.headers["a"] : principal`: "use request.host",
		`request.headers["x-original-url"]`:                            "use request.path",
		`request.headers["x-original-method"]`:                         "use request.method",
		`request.headers.te`:                                           "proxies set or remove it",
	} {
		warnings := OfPlan(planOf(t, on(get, of(cel))))
		expect(t, warnings, "spec.key[0].expression.cel reads the header")
		NewWithT(t).Expect(warnings[0]).To(HaveSuffix(advice))
	}
	expect(t, OfPlan(planOf(t, on(v1alpha1.Match{When: `request.headers["x-forwarded-for"] == "a"`}))), "spec.matches[0].when reads the header")
	expect(t, OfPlan(planOf(t, on(get).Override(override("a", func(o *v1alpha1.Override) {
		o.When, o.Action = `request.headers["x-forwarded-for"] == "a"`, v1alpha1.OverrideActionDeny
	})))), "spec.overrides[0].when reads the header")

	parts := []v1alpha1.KeyPart{
		{Type: v1alpha1.KeyPartHeader, Header: &v1alpha1.HeaderKey{Name: "X-User"}},
		{Type: v1alpha1.KeyPartDescriptor, Descriptor: &v1alpha1.DescriptorKey{Key: "user"}},
		{Type: v1alpha1.KeyPartCookie, Cookie: &v1alpha1.CookieKey{Name: "user"}},
		{Type: v1alpha1.KeyPartQueryParameter, QueryParameter: &v1alpha1.QueryParameterKey{Name: "user"}},
		{Type: v1alpha1.KeyPartRemoteAddress, RemoteAddress: &v1alpha1.RemoteAddressKey{}},
	}
	expect(t, OfPlan(planOf(t, on(get, parts...))))
	for _, match := range []v1alpha1.Match{{Domain: "edge"}, {Descriptors: []v1alpha1.DescriptorMatch{{Key: "a"}}}} {
		expect(t, OfPlan(planOf(t, on(match, parts...))), "spec.key[0] has no value", "spec.key[2] has no value",
			"spec.key[3] has no value", "spec.key[4] has no value")
	}
}
