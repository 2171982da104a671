// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// descriptors returns a descriptor for each text, such as "generic_key=login user=7".
func descriptors(texts ...string) []plan.Descriptor {
	var all []plan.Descriptor
	for _, text := range texts {
		var d plan.Descriptor
		for entry := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(entry, "=")
			d = append(d, plan.Entry{Key: key, Value: value})
		}
		all = append(all, d)
	}
	return all
}

func matchingDescriptor(entries string) plan.Match {
	var m plan.Match
	for _, e := range descriptors(entries)[0] {
		m.Descriptors = append(m.Descriptors, plan.EntryMatch{Key: e.Key, Value: e.Value})
	}
	return m
}

func described(texts ...string) *limiter.Check {
	return &limiter.Check{Cost: 1, Attributes: plan.Attributes{Domain: "edge", Path: "/a", Descriptors: descriptors(texts...)}}
}

func (f *fixture) evaluatedKeys() []string {
	var keys []string
	if f.store.last != nil {
		for _, e := range f.store.last.Entries {
			keys = append(keys, string(e.Key))
		}
	}
	return keys
}

var (
	user             = plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: "user"}
	edge             = plan.Match{Domain: "edge"}
	failingCondition = `request.path.split("/")[5] == "x"`
	expression       = func(text string) plan.KeyPart { return plan.KeyPart{Type: plan.KeyExpression, Expression: text} }
)

// A key part of type Descriptor and the CEL variable descriptor both read the descriptor
// that matched the policy.
func TestKeysFromDescriptors(t *testing.T) {
	for name, tc := range map[string]struct {
		part  plan.KeyPart
		match plan.Match
		sent  []string
		want  []string
	}{
		"the descriptor that matches":                {user, matchingDescriptor("a=1"), []string{"a=2 user=x", "a=1 user=y"}, []string{"y"}},
		"both that match":                            {user, matchingDescriptor("a=1"), []string{"a=1 user=x", "a=1 user=y"}, []string{"x", "y"}},
		"the same key twice":                         {user, matchingDescriptor("a=1"), []string{"a=1 user=x", "b=1", "a=1 user=x"}, []string{"x"}},
		"an entry key twice":                         {user, matchingDescriptor("user=y"), []string{"user=x user=y"}, []string{"x"}},
		"only another descriptor has it":             {user, matchingDescriptor("a=1"), []string{"a=1", "user=y"}, []string{"-"}},
		"a match without descriptors":                {user, edge, []string{"a=1", "user=x", "user=y"}, []string{"x"}},
		"no descriptor has it":                       {user, edge, []string{"a=1"}, []string{"-"}},
		"an empty value":                             {user, edge, []string{"user"}, []string{"-"}},
		"no descriptors":                             {user, edge, nil, []string{"-"}},
		"an expression":                              {expression(`descriptor["user"] + request.domain`), matchingDescriptor("a"), []string{"user=z", "a=1 user=x"}, []string{"xedge"}},
		"an expression without a matched descriptor": {expression(`descriptor["user"]`), edge, []string{"a=1", "user=x"}, []string{"x"}},
		"an expression that yields nothing":          {expression(`descriptor["user"]`), edge, []string{"a=1"}, []string{"-"}},
		"an expression that fails":                   {expression(`request.path.split("/")[5]`), edge, nil, []string{"-"}},
		"an expression with characters to escape":    {expression(`"a|b\n"`), edge, nil, []string{"a%7Cb%0A"}},
		"an expression of another release":           {expression(`request.mood`), edge, nil, []string{"-"}},
		"a key without the descriptor":               {plan.KeyPart{Type: plan.KeyPrincipal}, matchingDescriptor("a"), []string{"a=1", "a=2"}, []string{"-"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := makePlan("a/x", keyed(tc.part), matching(tc.match))
			g := NewWithT(t)
			g.Expect(p.Validate()).To(Succeed())
			f := newFixture(p)
			f.decide(t, described(tc.sent...))
			g.Expect(f.evaluatedKeys()).To(Equal(tc.want))
		})
	}
}

func TestMatchConditions(t *testing.T) {
	with := func(m plan.Match, when string) plan.Match { m.When = when; return m }
	for name, tc := range map[string]struct {
		matches []plan.Match
		want    bool
		failed  string // the fields of expressions that failed
	}{
		"true":                                   {[]plan.Match{{When: `request.domain == "edge"`}}, true, ""},
		"false":                                  {[]plan.Match{{When: `request.domain != "edge"`}}, false, ""},
		"true, but another field does not match": {[]plan.Match{with(plan.Match{Domain: "core"}, "true")}, false, ""},
		"fails":                                  {[]plan.Match{{When: failingCondition}}, true, "spec.matches[0].when"},
		"of another release":                     {[]plan.Match{{When: `request.mood == "bad"`}}, true, "spec.matches[0].when"},
		"not evaluated for another domain":       {[]plan.Match{with(plan.Match{Domain: "core"}, failingCondition)}, false, ""},
		"the second is true":                     {[]plan.Match{{When: "false"}, {When: "true"}}, true, ""},
		"the second fails":                       {[]plan.Match{{When: "false"}, {When: failingCondition}}, true, "spec.matches[1].when"},
		"not evaluated after a match":            {[]plan.Match{edge, {When: failingCondition}}, true, ""},
		"of the descriptor":                      {[]plan.Match{with(matchingDescriptor("a"), `descriptor["a"] == "2" && size(descriptor) == 1`)}, true, ""},
		"of no descriptor":                       {[]plan.Match{with(matchingDescriptor("a"), `descriptor["a"] == "3"`)}, false, ""},
		"of another descriptor":                  {[]plan.Match{with(matchingDescriptor("a=1"), `descriptor["a"] == "2"`)}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", matching(tc.matches...)))
			want := limiter.ReasonNoPolicy
			if tc.want {
				want = limiter.ReasonAllowed
			}
			g.Expect(f.decide(t, described("a=1", "a=2")).Reason).To(Equal(want))
			if tc.failed == "" {
				g.Expect(testutil.GatherAndCount(f.registry, "weir_expression_errors_total")).To(BeZero())
				return
			}
			g.Expect(exposition(g, f.registry)).To(ContainSubstring(
				`weir_expression_errors_total{field="` + tc.failed + `",namespace="a",policy="x"} 1`))
		})
	}
}

// byDescriptors returns an engine with the policy a/all, without key, and a/each with
// a key per user.
func byDescriptors() *fixture {
	matched := matching(matchingDescriptor("user"))
	return newFixture(makePlan("a/all", matched), makePlan("a/each", keyed(user), matched))
}

// A policy charges the key of each descriptor it matches. Equal keys are charged once.
func TestMatchingDescriptorsAreCharged(t *testing.T) {
	g := NewWithT(t)
	f := byDescriptors()
	d := f.decide(t, described("user=x", "user=y", "user=x"))
	g.Expect(f.evaluatedKeys()).To(Equal([]string{"-", "x", "y"}))
	g.Expect(d.Limits).To(HaveLen(3))
	for _, l := range d.Limits {
		g.Expect(l.Used).To(Equal(int64(1)))
	}
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(
		`weir_decisions_total{limit="",namespace="a",policy="each",verdict="allowed"} 2`), "once per policy and key")
}

func TestDescriptorsShareTheBudgetOfAPolicyWithoutKey(t *testing.T) {
	f := byDescriptors()
	for _, name := range []string{"user=x", "user=z", "user=z"} {
		f.decide(t, described(name))
	}
	NewWithT(t).Expect(f.decide(t, described("user=w")).Policy).To(Equal("a/all"))
}

func TestNamedPolicyUsesTheFirstMatchingDescriptor(t *testing.T) {
	g := NewWithT(t)
	f := byDescriptors()
	f.decide(t, described("user=x"))
	d := f.decide(t, &limiter.Check{Policies: []string{"a/each"}, Cost: 1, Attributes: described("b=1", "user=x", "user=y").Attributes})
	g.Expect(f.evaluatedKeys()).To(Equal([]string{"x"}))
	g.Expect(d.Limits[0].Used).To(Equal(int64(2)))
}

func TestGivenKeyReplacesTheKeysOfDescriptors(t *testing.T) {
	f := byDescriptors()
	f.decide(t, &limiter.Check{Key: []string{"k"}, Cost: 1, Attributes: described("user=x", "user=y").Attributes})
	NewWithT(t).Expect(f.evaluatedKeys()).To(Equal([]string{"k", "k"}))
}

// byDescriptorOverrides returns an engine that limits each user, allows the plan gold and denies
// the user mallory.
func byDescriptorOverrides() *fixture {
	gold, mallory := allow(when(`descriptor["plan"] == "gold"`)), deny(when(`descriptor["user"] == "mallory"`))
	return newFixture(makePlan("a/x", keyed(user), matching(matchingDescriptor("user")), overridden(gold, mallory)))
}

func TestOverridesSelectEachDescriptorAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		sent []string
		want limiter.Reason
		keys []string
	}{
		"none":                   {[]string{"user=x"}, limiter.ReasonAllowed, []string{"x"}},
		"all exempt":             {[]string{"user=x plan=gold", "user=y plan=gold"}, limiter.ReasonExempt, nil},
		"one exempt":             {[]string{"user=x plan=gold", "user=y"}, limiter.ReasonAllowed, []string{"y"}},
		"one denied":             {[]string{"user=x", "user=mallory"}, limiter.ReasonDeniedByOverride, []string{"x"}},
		"exempt by another only": {[]string{"user=x", "plan=gold"}, limiter.ReasonAllowed, []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := byDescriptorOverrides()
			g.Expect(f.decide(t, described(tc.sent...)).Reason).To(Equal(tc.want))
			g.Expect(f.evaluatedKeys()).To(Equal(tc.keys))
		})
	}
}

func TestOverridesOfSeveralDescriptorsAreCountedOnce(t *testing.T) {
	g := NewWithT(t)
	f := byDescriptorOverrides()
	f.decide(t, described("user=mallory a=1", "user=mallory a=2", "user=x plan=gold", "user=y plan=gold"))
	g.Expect(exposition(g, f.registry)).To(And(
		ContainSubstring("verdict=\"denied\"} 1\n"), ContainSubstring("verdict=\"exempt\"} 1\n")))
}
