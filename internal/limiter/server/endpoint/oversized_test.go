// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// A value of 9 KB is longer than expressions read. It must escape neither the policy nor an override.
func TestOversizedValuesEscapeNothing(t *testing.T) {
	const agent = `("user" in descriptor ? descriptor["user"] : request.headers["x-user"])`
	oversizable := func(edits ...func(*plan.Plan)) *plan.Plan {
		return loginPlan(append([]func(*plan.Plan){func(p *plan.Plan) {
			when := `request.path.endsWith("/never") || ` + agent + ` == "never" || descriptor["path"].endsWith("/never")`
			p.Matches = []plan.Match{
				{Methods: []string{"POST"}, Hosts: []string{"shop.example"}, Paths: []string{"/login*"}, When: when},
				{Domain: "edge", Descriptors: []plan.EntryMatch{{Key: "path"}}, When: when},
			}
			p.Limits = p.Limits[1:]
			p.Limits[0].Threshold = 3
		}}, edits...)...)
	}
	override := func(o plan.Override) func(*plan.Plan) {
		return func(p *plan.Plan) { p.Overrides = append(p.Overrides, o) }
	}
	keyedBy := func(parts ...plan.KeyPart) func(*plan.Plan) { return func(p *plan.Plan) { p.Key = parts } }
	evil := agent + `.contains("evil")`
	header, descriptor := plan.KeyPart{Type: plan.KeyHeader, Header: "x-user"}, plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: "user"}
	longUser, longPath := "evil"+strings.Repeat("x", 9000), strings.Repeat("/x", 4500)
	for name, tc := range map[string]struct {
		plan    *plan.Plan
		user    string
		longer  string
		allowed int // of five requests
		reason  limiter.Reason
	}{
		"a harmless request":       {oversizable(keyedBy(header, descriptor)), "evil", "", 5, ""},
		"a long user matches":      {oversizable(keyedBy(header, descriptor)), longUser, "", 3, limiter.ReasonLimitExceeded},
		"a long path matches":      {oversizable(keyedBy(header, descriptor)), "evil", longPath, 3, limiter.ReasonLimitExceeded},
		"a key from a long user":   {oversizable(), longUser, "", 0, limiter.ReasonMissingKey},
		"a denial by a long user":  {oversizable(keyedBy(), override(plan.Override{Name: "bots", Action: plan.ActionDeny, When: evil})), longUser, "", 0, limiter.ReasonDeniedByOverride},
		"all three":                {oversizable(override(plan.Override{Name: "bots", Action: plan.ActionDeny, When: evil})), longUser, longPath, 0, limiter.ReasonDeniedByOverride},
		"an exemption":             {oversizable(keyedBy(), override(plan.Override{Name: "staff", Action: plan.ActionAllow, When: evil})), longUser, "", 3, limiter.ReasonLimitExceeded},
		"tighter limits":           {oversizable(keyedBy(), override(plan.Override{Name: "trial", Action: plan.ActionLimit, When: evil, Limits: []plan.LimitOverride{{Name: "daily", Threshold: 1}}})), longUser, "", 1, limiter.ReasonLimitExceeded},
		"limits that are no wider": {oversizable(keyedBy(), override(plan.Override{Name: "gold", Action: plan.ActionLimit, When: evil, Limits: []plan.LimitOverride{{Name: "daily", Threshold: 100}}})), longUser, "", 3, limiter.ReasonLimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			for _, frontend := range slices.Sorted(maps.Keys(newFixture(t, nil).frontends)) {
				g := NewWithT(t)
				f := newFixture(t, nil, tc.plan)
				f.longer = tc.longer
				for i := range 5 {
					answer := f.frontends[frontend](g, tc.user)
					if frontend == "check" && len(tc.user)+len(tc.longer) > 9000 { // rejects what expressions cannot read
						g.Expect(answer.Allowed).To(BeFalse())
						g.Expect(answer.Body.Detail).To(ContainSubstring("is longer than 8192 bytes"))
						continue
					}
					g.Expect(answer.Allowed).To(Equal(i < tc.allowed), "request %d at %s", i, frontend)
					if !answer.Allowed {
						g.Expect(answer.Body.Reason).To(Equal(string(tc.reason)), frontend)
					}
					g.Expect(answer.Headers).NotTo(HaveKey("Weir-Degraded"), frontend)
				}
			}
		})
	}
}

// Spaces and tabs around a value, which servers remove, give a client no budget of its own at any frontend.
func TestBlanksAroundValuesMakeNoBudget(t *testing.T) {
	for _, frontend := range slices.Sorted(maps.Keys(newFixture(t, nil).frontends)) {
		g := NewWithT(t)
		f := newFixture(t, nil, loginPlan())
		for i, user := range []string{"alice", " alice", "alice\t ", "alice"} {
			g.Expect(f.frontends[frontend](g, user).Allowed).To(Equal(i < 3), "request %d at %s", i, frontend)
		}
	}
}
