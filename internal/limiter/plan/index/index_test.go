// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/test/testenv/seeds"
	"github.com/weir-dev/weir/test/testplan"
)

func descriptors(all ...plan.Descriptor) plan.Attributes { return plan.Attributes{Descriptors: all} }

// only returns a match that forbids other entries.
func only(entries ...string) plan.Match {
	m := testplan.MatchEntries(entries...)
	m.ForbidsOtherEntries = true
	return m
}

func matchTargets(all ...plan.Target) plan.Match { return plan.Match{Targets: all} }

func targets(all ...plan.Target) plan.Attributes { return plan.Attributes{Targets: all} }

// A host that no pattern can match costs no more to look up the longer it is.
func TestLookupsOfLongHosts(t *testing.T) {
	var plans []*plan.Plan
	for i := range 100 {
		plans = append(plans, &plan.Plan{
			Namespace: "a", Name: "p" + strconv.Itoa(i), Mode: plan.ModeEnforce,
			Matches: []plan.Match{{Hosts: []string{fmt.Sprintf("h%d.example", i), fmt.Sprintf("*.w%d.example", i)}}},
		})
	}
	snapshot := index.NewSnapshot(1, plans)
	cost := func(length int) time.Duration {
		a := plan.Attributes{Host: strings.Repeat(".", length) + "w7.example"}
		NewWithT(t).Expect(snapshot.AppendMatches(nil, &a)).To(HaveLen(1))
		shortest := time.Hour
		for range 20 {
			start := time.Now()
			snapshot.AppendMatches(nil, &a)
			shortest = min(shortest, time.Since(start))
		}
		return shortest
	}
	NewWithT(t).Expect(cost(60_000)).To(BeNumerically("<", 20*cost(600)+10*time.Microsecond))
}

func TestMatch(t *testing.T) {
	everything := plan.Match{
		Hosts: []string{"a.example"}, Methods: []string{"GET"}, Paths: []string{"/x"}, Domain: "edge", Descriptors: testplan.Wanted("k=v"),
	}
	request := func(method, domain string) plan.Attributes {
		return plan.Attributes{Host: "a.example", Method: method, Path: "/x", Domain: domain, Descriptors: []plan.Descriptor{testplan.Descriptor("k=v")}}
	}
	for name, tc := range map[string]struct {
		match plan.Match
		a     plan.Attributes
		want  bool
	}{
		"an exact host":             {plan.Match{Hosts: []string{"a.example"}}, plan.Attributes{Host: "a.example"}, true},
		"another host":              {plan.Match{Hosts: []string{"a.example"}}, plan.Attributes{Host: "b.example"}, false},
		"no host":                   {plan.Match{Hosts: []string{"a.example"}}, plan.Attributes{}, false},
		"one of several hosts":      {plan.Match{Hosts: []string{"a.example", "b.example"}}, plan.Attributes{Host: "b.example"}, true},
		"below a wildcard":          {plan.Match{Hosts: []string{"*.example"}}, plan.Attributes{Host: "a.example"}, true},
		"far below a wildcard":      {plan.Match{Hosts: []string{"*.example"}}, plan.Attributes{Host: "a.b.c.example"}, true},
		"not the wildcard's parent": {plan.Match{Hosts: []string{"*.a.example"}}, plan.Attributes{Host: "a.example"}, false},
		"not what only ends alike":  {plan.Match{Hosts: []string{"*.a.example"}}, plan.Attributes{Host: "xa.example"}, false},
		"a method":                  {plan.Match{Methods: []string{"GET", "POST"}}, plan.Attributes{Method: "POST"}, true},
		"another method":            {plan.Match{Methods: []string{"GET"}}, plan.Attributes{Method: "POST"}, false},
		"an exact path":             {plan.Match{Paths: []string{"/login"}}, plan.Attributes{Path: "/login"}, true},
		"not below an exact path":   {plan.Match{Paths: []string{"/login"}}, plan.Attributes{Path: "/login/"}, false},
		"below a prefix":            {plan.Match{Paths: []string{"/api/*"}}, plan.Attributes{Path: "/api/v1"}, true},
		"the prefix itself":         {plan.Match{Paths: []string{"/api/*"}}, plan.Attributes{Path: "/api/"}, true},
		"beside a prefix":           {plan.Match{Paths: []string{"/api/*"}}, plan.Attributes{Path: "/api"}, false},
		"within a segment":          {plan.Match{Paths: []string{"/api*"}}, plan.Attributes{Path: "/apis"}, true},
		"every path":                {plan.Match{Paths: []string{"/*"}}, plan.Attributes{Path: "/x"}, true},
		"no path":                   {plan.Match{Paths: []string{"/*"}}, plan.Attributes{}, false},

		"a target":                   {matchTargets("HTTPRoute/shop/a"), targets("Gateway/infra/public", "HTTPRoute/shop/a"), true},
		"a target of several":        {matchTargets("HTTPRoute/shop/b", "HTTPRoute/shop/a"), targets("HTTPRoute/shop/a"), true},
		"a part of a target":         {matchTargets("HTTPRoute/shop/a"), targets("HTTPRoute/shop/a/checkout"), true},
		"the part itself":            {matchTargets("HTTPRoute/shop/a/checkout"), targets("HTTPRoute/shop/a/checkout"), true},
		"another part":               {matchTargets("HTTPRoute/shop/a/checkout"), targets("HTTPRoute/shop/a/cart"), false},
		"the whole of a part":        {matchTargets("HTTPRoute/shop/a/checkout"), targets("HTTPRoute/shop/a"), false},
		"a longer name":              {matchTargets("HTTPRoute/shop/a"), targets("HTTPRoute/shop/ab"), false},
		"another kind":               {matchTargets("HTTPRoute/shop/a"), targets("GRPCRoute/shop/a", "Gateway/shop/a"), false},
		"another Namespace":          {matchTargets("HTTPRoute/shop/a"), targets("HTTPRoute/bank/a"), false},
		"no targets":                 {matchTargets("HTTPRoute/shop/a"), plan.Attributes{Host: "a.example"}, false},
		"a target, and another host": {plan.Match{Targets: []plan.Target{"HTTPRoute/shop/a"}, Hosts: []string{"a.example"}}, targets("HTTPRoute/shop/a"), false},
		"a domain":                   {plan.Match{Domain: "edge"}, plan.Attributes{Domain: "edge"}, true},
		"another domain":             {plan.Match{Domain: "edge"}, plan.Attributes{Domain: "Edge"}, false},
		"no domain":                  {plan.Match{Domain: "edge"}, plan.Attributes{}, false},
		"an entry":                   {testplan.MatchEntries("k=v"), descriptors(testplan.Descriptor("a=b", "k=v")), true},
		"another value":              {testplan.MatchEntries("k=v"), descriptors(testplan.Descriptor("k=V")), false},
		"another key":                {testplan.MatchEntries("k=v"), descriptors(testplan.Descriptor("K=v")), false},
		"any value":                  {testplan.MatchEntries("k"), descriptors(testplan.Descriptor("k=v")), true},
		"also an empty one":          {testplan.MatchEntries("k"), descriptors(testplan.Descriptor("k")), true},
		"a value is not a key":       {testplan.MatchEntries("v"), descriptors(testplan.Descriptor("k=v")), false},
		"in the second descriptor":   {testplan.MatchEntries("k=v"), descriptors(testplan.Descriptor("k=w"), testplan.Descriptor("k=v")), true},
		"two entries of one":         {testplan.MatchEntries("k=v", "a"), descriptors(testplan.Descriptor("a=b", "k=v")), true},
		"two entries of two":         {testplan.MatchEntries("k=v", "a"), descriptors(testplan.Descriptor("a=b"), testplan.Descriptor("k=v")), false},
		"a key twice":                {testplan.MatchEntries("k=v"), descriptors(testplan.Descriptor("k=w", "k=v")), true},
		"a prefix":                   {testplan.MatchEntries("k=/api/*"), descriptors(testplan.Descriptor("k=/api/v1")), true},
		"a whole prefix":             {testplan.MatchEntries("k=/api/*"), descriptors(testplan.Descriptor("k=/api/")), true},
		"another prefix":             {testplan.MatchEntries("k=/api/*"), descriptors(testplan.Descriptor("k=/apis")), false},
		"a prefix of another key":    {testplan.MatchEntries("k=/api/*"), descriptors(testplan.Descriptor("l=/api/")), false},
		"not a value's beginning":    {testplan.MatchEntries("k=/api"), descriptors(testplan.Descriptor("k=/api/")), false},
		"an exception":               {testplan.MatchEntries("k=!v"), descriptors(testplan.Descriptor("k=v")), false},
		"beside an exception":        {testplan.MatchEntries("k=!v"), descriptors(testplan.Descriptor("k=vw")), true},
		"no value, an exception":     {testplan.MatchEntries("k=!v"), descriptors(testplan.Descriptor("k")), true},
		"an excluded prefix":         {testplan.MatchEntries("k=!b*"), descriptors(testplan.Descriptor("k=bcd")), false},
		"the excluded prefix":        {testplan.MatchEntries("k=a*!ab*!ad*"), descriptors(testplan.Descriptor("k=ab")), false},
		"between excluded prefixes":  {testplan.MatchEntries("k=a*!ab*!ad*"), descriptors(testplan.Descriptor("k=acx")), true},
		"an exception of one":        {testplan.MatchEntries("k=!v"), descriptors(testplan.Descriptor("k=v", "k=w")), true},
		"only the entries":           {only("k=v", "l"), descriptors(testplan.Descriptor("l=x", "k=v")), true},
		"one more":                   {only("k=v", "l"), descriptors(testplan.Descriptor("l=x", "k=v", "m")), false},
		"one twice":                  {only("k=v"), descriptors(testplan.Descriptor("k=v", "k=v")), false},
		"another one in its place":   {only("k=v", "k"), descriptors(testplan.Descriptor("k=v", "m")), false},
		"two of one key":             {only("k=v", "k=w"), descriptors(testplan.Descriptor("k=w", "k=v")), true},
		"no entries":                 {testplan.MatchEntries("k"), descriptors(plan.Descriptor{}), false},
		"no descriptors":             {testplan.MatchEntries("k"), plan.Attributes{}, false},
		"an expression, unevaluated": {plan.Match{When: "false"}, plan.Attributes{}, true},

		"all fields":           {everything, request("GET", "edge"), true},
		"all but the method":   {everything, request("PUT", "edge"), false},
		"all but the domain":   {everything, request("GET", ""), false},
		"all but a descriptor": {everything, plan.Attributes{Host: "a.example", Method: "GET", Path: "/x", Domain: "edge"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := testplan.Valid()
			p.Matches = []plan.Match{tc.match}
			NewWithT(t).Expect(p.Validate()).To(Succeed())
			found := index.NewSnapshot(1, []*plan.Plan{p}).Match(&tc.a)
			want := 0
			if tc.want {
				want = 1
			}
			NewWithT(t).Expect(found).To(HaveLen(want))
		})
	}
}

// newTestSnapshot returns a snapshot of four plans: enforced, in shadow, disabled and without
// matches.
func newTestSnapshot() *index.Snapshot {
	policy := func(name string, mode plan.Mode, matches ...plan.Match) *plan.Plan {
		p := testplan.Valid()
		p.Name, p.Mode, p.Matches = name, mode, matches
		return p
	}
	everything := plan.Match{Paths: []string{"/*"}}
	return index.NewSnapshot(7, []*plan.Plan{
		policy("c", plan.ModeEnforce, everything, testplan.MatchEntries("k"), testplan.MatchEntries("k=v"), plan.Match{Methods: []string{"POST"}}),
		policy("a", plan.ModeShadow, everything),
		policy("b", plan.ModeDisabled, everything),
		policy("d", plan.ModeEnforce),
	})
}

func TestSnapshotListsPlans(t *testing.T) {
	g := NewWithT(t)
	s := newTestSnapshot()
	g.Expect(s.Revision()).To(Equal(int64(7)))
	g.Expect(ids(s.Plans())).To(Equal([]string{"shop/a", "shop/b", "shop/c", "shop/d"}))
	g.Expect(s.Lookup("shop/b").Mode).To(Equal(plan.ModeDisabled))
	g.Expect(s.Lookup("shop/x")).To(BeNil())
}

// Matches are in order, each once, without matches of disabled plans.
func TestSnapshotMatches(t *testing.T) {
	g := NewWithT(t)
	s := newTestSnapshot()
	found := s.Match(&plan.Attributes{
		Method: "GET", Path: "/x", Descriptors: []plan.Descriptor{testplan.Descriptor("k=w"), testplan.Descriptor("a=b"), testplan.Descriptor("k=v")},
	})
	a, c := s.Lookup("shop/a"), s.Lookup("shop/c")
	g.Expect(found).To(Equal([]plan.Found{
		{Plan: a, Match: 0, Descriptor: plan.AllDescriptors},
		{Plan: c, Match: 0, Descriptor: plan.AllDescriptors},
		{Plan: c, Match: 1, Descriptor: 0},
		{Plan: c, Match: 1, Descriptor: 2},
	}), "match 2 of plan c adds nothing to match 1 for descriptor 2")
}

// After a match without an expression further matches of the plan do not matter, for each descriptor.
func TestMatchesBehindCertainOnesAreLeftOut(t *testing.T) {
	g := NewWithT(t)
	when := func(m plan.Match) plan.Match { m.When = "request.path == '/x'"; return m }
	everything := plan.Match{Paths: []string{"/*"}}
	p := testplan.Valid()
	p.Matches = []plan.Match{
		when(everything), when(testplan.MatchEntries("k")), everything, when(everything), testplan.MatchEntries("k=v"), testplan.MatchEntries("k"),
	}
	found := index.NewSnapshot(1, []*plan.Plan{p}).Match(&plan.Attributes{Path: "/x", Descriptors: []plan.Descriptor{testplan.Descriptor("k=w"), testplan.Descriptor("k=v")}})
	g.Expect(found).To(Equal([]plan.Found{
		{Plan: p, Match: 0, Descriptor: plan.AllDescriptors},
		{Plan: p, Match: 2, Descriptor: plan.AllDescriptors},
		{Plan: p, Match: 1, Descriptor: 0},
		{Plan: p, Match: 5, Descriptor: 0},
		{Plan: p, Match: 1, Descriptor: 1},
		{Plan: p, Match: 4, Descriptor: 1},
	}))
}

func ids(plans []*plan.Plan) []string {
	var ids []string
	for _, p := range plans {
		ids = append(ids, p.ID())
	}
	return ids
}

// A snapshot of many plans finds the same matches as a snapshot of each plan alone.
func TestIndexFindsEveryMatch(t *testing.T) {
	for seed := range seeds.InMemory(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			g := NewWithT(t)
			r := &generator{rand.New(rand.NewPCG(seed, 1))}
			plans := make([]*plan.Plan, 1+r.IntN(150))
			for i := range plans {
				plans[i] = testplan.Valid()
				plans[i].Name, plans[i].Matches = fmt.Sprintf("p%03d", i), nil
				for range 1 + r.IntN(3) {
					plans[i].Matches = append(plans[i].Matches, r.match())
				}
			}
			all := index.NewSnapshot(1, plans)
			for range 50 {
				a := r.request()
				var want []plan.Found
				for _, p := range plans {
					want = append(want, index.NewSnapshot(1, []*plan.Plan{p}).Match(&a)...)
				}
				g.Expect(all.Match(&a)).To(Equal(want), "%+v", a)
			}
		})
	}
}

// generator generates random matches and requests from a few words, so that they often match.
type generator struct{ *rand.Rand }

func (r *generator) some(upTo int, words ...string) []string {
	chosen := map[string]bool{}
	for range r.IntN(upTo + 1) {
		chosen[words[r.IntN(len(words))]] = true
	}
	var list []string
	for _, word := range words {
		if chosen[word] {
			list = append(list, word)
		}
	}
	return list
}

var headerWords = []string{"x-a", "x-a=1", "x-a=2", "x-a=1, 2", "x-b", "x-b=1", "x-c=1"}

var entryWords = []string{"k", "k=1", "k=2", "k=1*", "k=12*!12!123*", "k=!1!2*", "l", "l=1", "l=abcdefg*", "l=abcd*", "m=1"}

var targetWords = []string{"Gateway/a/g", "Gateway/a/g/l", "Gateway/a/g/m", "HTTPRoute/a/r", "HTTPRoute/a/r/s", "HTTPRoute/b/r", "HTTPRoute/a/rs"}

func (r *generator) match() plan.Match {
	m := plan.Match{
		Hosts:       r.some(3, "a.example", "b.example", "c.b.example", "*.example", "*.b.example", "d", "e", "f"),
		Paths:       r.some(3, "/", "/a", "/a/b", "/a*", "/a/*", "/b/*", "/*", "/c", "/d", "/e"),
		Methods:     r.some(2, "GET", "PUT", "POST"),
		Descriptors: testplan.Wanted(r.some(2, entryWords...)...),
	}
	m.ForbidsOtherEntries = len(m.Descriptors) > 0 && r.IntN(3) == 0
	for _, t := range r.some(2, targetWords...) {
		m.Targets = append(m.Targets, plan.Target(t))
	}
	m.Headers, m.QueryParameters = testplan.Descriptor(r.some(2, headerWords...)...), testplan.Descriptor(r.some(2, "q", "q=1", "q=a b", "Q=2", "p=1")...)
	if domain := r.some(1, "x", "y", "z"); len(domain) > 0 {
		m.Domain = domain[0]
	}
	return m
}

func (r *generator) request() plan.Attributes {
	one := func(words ...string) string { return words[r.IntN(len(words))] }
	a := plan.Attributes{
		Host: one("", "a.example", "b.example", "c.b.example", "z.c.b.example", "d"), Path: one("", "/", "/a", "/a/", "/a/b", "/b/c", "/c"),
		Method: one("", "GET", "PUT"), Domain: one("", "x", "y"),
		Headers: map[string]string{"x-" + one("a", "b", "c"): one("", "1", "2", "1,2", "3, 2,1", "1, ", strings.Repeat("3,", plan.MaxReadValues))},
		Query:   one("", "q", "q=1", "p=1&q=a+b", "q=1;p=1", "%71=1&p", "q[]=2", "q=1&q=2", strings.Repeat("x&", plan.MaxReadValues)),
	}
	for _, t := range r.some(3, targetWords...) {
		a.Targets = append(a.Targets, plan.Target(t))
	}
	for range r.IntN(4) {
		a.Descriptors = append(a.Descriptors, testplan.Descriptor(r.some(3, "k", "k=1", "k=2", "k=12", "k=124", "k=1234", "l=1", "l=2", "l=abcdefgh", "l=abcde", "m=1")...))
	}
	return a
}

// oneFactMatches return the match of the i-th of many policies that differ in one fact.
var oneFactMatches = map[string]func(i int) plan.Match{
	"hosts": func(i int) plan.Match {
		return plan.Match{Hosts: []string{fmt.Sprintf("h%d.example", i), fmt.Sprintf("*.w%d.example", i)}}
	},
	"paths": func(i int) plan.Match {
		return plan.Match{Hosts: []string{"*.w7.example"}, Paths: []string{fmt.Sprintf("/%d", i), fmt.Sprintf("/%d/*", i)}}
	},
	"100 hosts x 100 paths": func(i int) plan.Match {
		host, path := i%100, (i+i/100)%100
		return plan.Match{
			Hosts: []string{fmt.Sprintf("h%d.example", host), fmt.Sprintf("*.w%d.example", host)},
			Paths: []string{fmt.Sprintf("/%d", path), fmt.Sprintf("/%d/*", path)},
		}
	},
	"paths of any host": func(i int) plan.Match { return plan.Match{Paths: []string{fmt.Sprintf("/%d/*", i)}} },
	"methods":           func(i int) plan.Match { return plan.Match{Methods: []string{fmt.Sprintf("M%d", i)}} },
	"methods of one path": func(i int) plan.Match {
		return plan.Match{Hosts: []string{"*.w7.example"}, Paths: []string{"/7/*"}, Methods: []string{fmt.Sprintf("M%d", i)}}
	},
	"routes": func(i int) plan.Match { return matchTargets(plan.Target(fmt.Sprintf("HTTPRoute/shop/r%d", i))) },
	"routes, named rules": func(i int) plan.Match {
		return matchTargets(plan.Target(fmt.Sprintf("HTTPRoute/shop/r%d/s", i)), plan.Target(fmt.Sprintf("Gateway/shop/r%d", i)))
	},
	"domains": func(i int) plan.Match { return plan.Match{Domain: fmt.Sprintf("d%d", i)} },
	"domains of one descriptor": func(i int) plan.Match {
		return plan.Match{Domain: fmt.Sprintf("d%d", i), Descriptors: testplan.Wanted("generic_key=login")}
	},
	"descriptor values": func(i int) plan.Match {
		return plan.Match{Domain: "d7", Descriptors: testplan.Wanted("generic_key=login", fmt.Sprintf("user=%d", i))}
	},
	"descriptor keys": func(i int) plan.Match {
		return plan.Match{Domain: "d7", Descriptors: testplan.Wanted("generic_key=login", fmt.Sprintf("k%d", i))}
	},
	"descriptor prefixes": func(i int) plan.Match {
		return plan.Match{Domain: "d7", Descriptors: testplan.Wanted(fmt.Sprintf("user=%d/*", i))}
	},
	"headers": func(i int) plan.Match {
		return plan.Match{Paths: []string{"/7/*"}, Headers: testplan.Descriptor(fmt.Sprintf("x-user=%d", i))}
	},
	"names of headers": func(i int) plan.Match {
		return plan.Match{Paths: []string{"/7/*"}, Headers: testplan.Descriptor("x-user", fmt.Sprintf("x-%d", i))}
	},
	"query parameters": func(i int) plan.Match {
		return plan.Match{Paths: []string{"/7/*"}, QueryParameters: testplan.Descriptor("page", fmt.Sprintf("user=%d", i))}
	},
	"everything": func(i int) plan.Match {
		return plan.Match{
			Hosts: []string{fmt.Sprintf("*.w%d.example", i)}, Paths: []string{fmt.Sprintf("/%d/*", i)}, Methods: []string{fmt.Sprintf("M%d", i)},
			Domain: fmt.Sprintf("d%d", i), Descriptors: testplan.Wanted(fmt.Sprintf("user=%d", i)),
		}
	},
}

func plansWith(match func(i int) plan.Match, n int) []*plan.Plan {
	plans := make([]*plan.Plan, n)
	for i := range plans {
		plans[i] = testplan.Valid()
		plans[i].Name = fmt.Sprintf("p%d", i)
		plans[i].Matches = []plan.Match{match(i)}
	}
	return plans
}

// requestOfPlan7 returns a request to which only the plan with i = 7 applies.
func requestOfPlan7() *plan.Attributes {
	return &plan.Attributes{
		Targets: []plan.Target{"Gateway/infra/public", "HTTPRoute/shop/r7/s"}, Host: "x.y.w7.example", Path: "/7/x", Method: "M7", Domain: "d7",
		Descriptors: []plan.Descriptor{testplan.Descriptor("a=b"), testplan.Descriptor("generic_key=login", "user=7", "user=7/x", "k7=x")},
		Headers:     map[string]string{"x-user": "x, 7", "x-7": "", "accept": "*/*"}, Query: "page=1&user=7",
	}
}

// The index finds no more entries among 10,000 policies than among 10.
func TestIndexNarrowsDown(t *testing.T) {
	for name, match := range oneFactMatches {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			few, many := index.NewSnapshot(1, plansWith(match, 10)), index.NewSnapshot(1, plansWith(match, 10_000))
			g.Expect(few.Candidates(requestOfPlan7())).To(BeNumerically("<=", 8))
			g.Expect(many.Candidates(requestOfPlan7())).To(BeNumerically("<=", 8))
			found := many.Match(requestOfPlan7())
			g.Expect(found).To(HaveLen(1))
			g.Expect(found[0].Plan.Name).To(Equal("p7"))
		})
	}
}

// The cost of finding the plans of a request is independent of the number of other plans.
func BenchmarkMatch(b *testing.B) {
	var names []string
	for name := range oneFactMatches {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, n := range []int{10, 10_000} {
			b.Run(name+"/"+strconv.Itoa(n), func(b *testing.B) {
				s, a := index.NewSnapshot(1, plansWith(oneFactMatches[name], n)), requestOfPlan7()
				b.ReportAllocs()
				for b.Loop() {
					if len(s.Match(a)) != 1 {
						b.Fatal("want one plan")
					}
				}
			})
		}
	}
}

func BenchmarkNewSnapshot(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			plans := plansWith(oneFactMatches["everything"], n)
			for b.Loop() {
				index.NewSnapshot(1, plans)
			}
		})
	}
}
