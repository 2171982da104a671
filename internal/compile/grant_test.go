// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// A release that does not know targetRefs, as after a rollback, sees a policy without them: docs/release.md lists
// the effects.
func TestReleaseWithoutTargetRefs(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	build := func() *testpolicy.Builder {
		return testpolicy.Make("shop/x").Target("HTTPRoute", "shop").Limit("a", "FixedWindow", 5, "1m")
	}
	g := NewWithT(t)
	without := func(b *testpolicy.Builder) *v1alpha1.RateLimitPolicy {
		policy := b.Obj()
		policy.Spec.TargetRefs = nil
		return policy
	}
	compiled, errs := compile.Compile(build().Obj(), compile.GrantOf(nil), now)
	g.Expect(errs).To(BeEmpty())
	g.Expect(compiled.Matches).To(Equal([]plan.Match{{Targets: []plan.Target{"HTTPRoute/shop/shop"}}}))
	compiled, errs = compile.Compile(without(build()), compile.GrantOf(nil), now)
	g.Expect(errs).To(BeEmpty())
	g.Expect(compiled.Matches).To(BeEmpty(), "it applies to no request")

	searching := build().Match(v1alpha1.Match{Hosts: []string{"shop.example"}})
	_, errs = compile.Compile(searching.Obj(), compile.GrantOf(nil), now)
	g.Expect(errs).To(BeEmpty())
	_, errs = compile.Compile(without(searching), compile.GrantOf(nil), now)
	g.Expect(errs).To(ConsistOf(HaveField("Type", field.ErrorTypeForbidden)), "not accepted: the plan is withdrawn")
	granted := compile.GrantOf(map[string]string{compile.HostsAnnotation: "shop.example"})
	compiled, errs = compile.Compile(without(searching), granted, now)
	g.Expect(errs).To(BeEmpty())
	g.Expect(compiled.Matches).To(Equal([]plan.Match{{Hosts: []string{"shop.example"}}}), "it applies to all routes of the host")
}

// A release that does not know groups, as after a rollback, sees an override without a selector and accepts no policy
// with one: otherwise the override would select every key.
func TestReleaseWithoutGroups(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	policy := testpolicy.Make("shop/x").Key(testpolicy.PrincipalPart()).Limit("a", "FixedWindow", 5, "1m").Override(
		v1alpha1.Override{Name: "gold", Groups: []string{"gold"}, Action: v1alpha1.OverrideActionAllow}).Obj()
	_, errs := compile.Compile(policy, compile.Everything(), time.Time{})
	g.Expect(errs).To(BeEmpty())
	policy.Spec.Overrides[0].Groups = nil
	compiled, errs := compile.Compile(policy, compile.Everything(), time.Time{})
	g.Expect(compiled).To(BeNil())
	g.Expect(errs).To(ConsistOf(HaveField("Detail", ContainSubstring("overrides[0] has no selector"))))
}

func TestGrant(t *testing.T) {
	t.Parallel()
	hosts := func(names ...string) v1alpha1.Match { return v1alpha1.Match{Hosts: names} }
	for name, tc := range map[string]struct {
		hosts, domains string
		matches        []v1alpha1.Match
		want           []string // the fields that are forbidden
	}{
		"a policy without matches": {},
		"no annotations": {
			matches: []v1alpha1.Match{hosts("a.example")},
			want:    []string{"spec.matches[0].hosts[0]"},
		},
		"the host itself":    {hosts: "a.example", matches: []v1alpha1.Match{hosts("a.example")}},
		"one host of a list": {hosts: " a.example ,, B.example", matches: []v1alpha1.Match{hosts("b.example", "a.example")}},
		"another host": {
			hosts: "a.example", matches: []v1alpha1.Match{hosts("a.example", "b.example")},
			want: []string{"spec.matches[0].hosts[1]"},
		},
		"names below a wildcard":       {hosts: "*.x.example", matches: []v1alpha1.Match{hosts("a.x.example", "b.a.x.example")}},
		"the wildcard itself":          {hosts: "*.x.example", matches: []v1alpha1.Match{hosts("*.x.example")}},
		"a wildcard below a wildcard":  {hosts: "*.x.example", matches: []v1alpha1.Match{hosts("*.a.x.example")}},
		"the name above its wildcard":  {hosts: "*.x.example", matches: []v1alpha1.Match{hosts("x.example")}, want: []string{"spec.matches[0].hosts[0]"}},
		"a wildcard above a wildcard":  {hosts: "*.x.example", matches: []v1alpha1.Match{hosts("*.example")}, want: []string{"spec.matches[0].hosts[0]"}},
		"a name with the same ending":  {hosts: "*.x.example", matches: []v1alpha1.Match{hosts("evilx.example")}, want: []string{"spec.matches[0].hosts[0]"}},
		"a wildcard of a granted name": {hosts: "x.example", matches: []v1alpha1.Match{hosts("*.x.example")}, want: []string{"spec.matches[0].hosts[0]"}},
		"an entry that is no name":     {hosts: "*x.example", matches: []v1alpha1.Match{hosts("ax.example")}, want: []string{"spec.matches[0].hosts[0]"}},
		"every host":                   {hosts: "*", matches: []v1alpha1.Match{hosts("*.example", "a")}},
		"neither hosts nor domain": {
			hosts: "*", domains: "*", matches: []v1alpha1.Match{{Paths: []string{"/*"}}},
			want: []string{"spec.matches[0]"},
		},
		"every entry counts": {
			hosts: "a.example", matches: []v1alpha1.Match{hosts("a.example"), {Methods: []string{"GET"}}, hosts("b.example")},
			want: []string{"spec.matches[1]", "spec.matches[2].hosts[0]"},
		},
		"the domain": {domains: "edge, core", matches: []v1alpha1.Match{{Domain: "core"}}},
		"any domain": {domains: "*", matches: []v1alpha1.Match{{Domain: "core"}}},
		"another domain": {
			domains: "edge", matches: []v1alpha1.Match{{Domain: "core"}},
			want: []string{"spec.matches[0].domain"},
		},
		"domains have no wildcards": {
			domains: "*.edge", matches: []v1alpha1.Match{{Domain: "a.edge"}},
			want: []string{"spec.matches[0].domain"},
		},
		"a granted domain excuses no host": {
			domains: "edge", matches: []v1alpha1.Match{{Domain: "edge", Hosts: []string{"a.example"}}},
			want: []string{"spec.matches[0].hosts[0]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			policy := testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, "1s")
			for _, m := range tc.matches {
				policy.Match(m)
			}
			_, errs := compile.Compile(policy.Obj(), compile.GrantOf(map[string]string{
				compile.HostsAnnotation: tc.hosts, compile.DomainsAnnotation: tc.domains,
			}), time.Time{})
			var forbidden []string
			for _, err := range errs {
				if err.Type == field.ErrorTypeForbidden {
					forbidden = append(forbidden, err.Field)
				}
			}
			g.Expect(forbidden).To(Equal(tc.want))

			_, errs = compile.Compile(policy.Obj(), compile.Everything(), time.Time{})
			for _, err := range errs {
				g.Expect(err.Type).NotTo(Equal(field.ErrorTypeForbidden))
			}
		})
	}
}

func TestGrantErrorNamesTheAnnotation(t *testing.T) {
	t.Parallel()
	_, errs := compile.Compile(testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, "1s").
		Match(v1alpha1.Match{Hosts: []string{"a.example"}}).Obj(), compile.Grant{}, time.Time{})
	NewWithT(t).Expect(errs.ToAggregate()).To(MatchError(
		"spec.matches[0].hosts[0]: Forbidden: a.example is not granted to the Namespace by its annotation ratelimit.weir.dev/hosts"))
}

// A plan may have been published under another grant.
func TestGrantPermitsPlan(t *testing.T) {
	t.Parallel()
	grant := compile.GrantOf(map[string]string{compile.HostsAnnotation: "*.x.example", compile.DomainsAnnotation: "edge,core"})
	for name, tc := range map[string]struct {
		matches []plan.Match
		want    bool
	}{
		"only named":             {nil, true},
		"a host":                 {[]plan.Match{{Hosts: []string{"a.x.example"}}}, true},
		"another host beside it": {[]plan.Match{{Hosts: []string{"a.x.example", "x.example"}}}, false},
		"a domain":               {[]plan.Match{{Domain: "edge"}}, true},
		"another domain":         {[]plan.Match{{Domain: "Edge"}}, false},
		"both":                   {[]plan.Match{{Domain: "core", Hosts: []string{"a.x.example"}}}, true},
		"only the host of both":  {[]plan.Match{{Domain: "other", Hosts: []string{"a.x.example"}}}, false},
		"only the domain of both": {
			[]plan.Match{{Domain: "edge", Hosts: []string{"a.x.example", "other.example"}}}, false,
		},
		"neither":             {[]plan.Match{{Paths: []string{"/*"}}}, false},
		"only descriptors":    {[]plan.Match{{Descriptors: []plan.EntryMatch{{Key: "k"}}}}, false},
		"only an expression":  {[]plan.Match{{When: `request.domain == "edge"`}}, false},
		"every entry":         {[]plan.Match{{Domain: "edge"}, {Hosts: []string{"*.x.example"}}}, true},
		"all entries but one": {[]plan.Match{{Domain: "edge"}, {Hosts: []string{"*.x.example"}}, {Methods: []string{"GET"}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			p := &plan.Plan{Matches: tc.matches}
			g.Expect(grant.Permits(p)).To(Equal(tc.want))
			g.Expect(compile.Everything().Permits(p)).To(BeTrue())
			g.Expect(compile.Grant{}.Permits(p)).To(Equal(tc.matches == nil))
		})
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	spec := &testpolicy.Make("x").
		Limit("burst", v1alpha1.AlgorithmSlidingLog, 5, "1m").
		Limit("daily", v1alpha1.AlgorithmSlidingLog, 20, "24h").Obj().Spec
	g.Expect(compile.Summary(spec)).To(Equal("burst 5/1m, daily 20/24h"))
}

// A limit of units at once has no window.
func TestSummaryOfConcurrency(t *testing.T) {
	spec := &testpolicy.Make("shop/calls").Limit("inflight", v1alpha1.AlgorithmConcurrency, 10, "").Obj().Spec
	NewWithT(t).Expect(compile.Summary(spec)).To(Equal("inflight 10 at once"))
}

func TestSummaryFitsItsField(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	largest := testpolicy.Make("x")
	for range plan.MaxLimits {
		largest.Limit(strings.Repeat("n", 63), v1alpha1.AlgorithmFixedWindow, plan.MaxFixedWindowThreshold, v1alpha1.Duration(strings.Repeat("9", 24)))
	}
	g.Expect(len(compile.Summary(&largest.Obj().Spec))).To(BeNumerically("<=", 2048))
}
