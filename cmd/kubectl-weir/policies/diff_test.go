// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func TestChangedFields(t *testing.T) {
	g := NewWithT(t)
	was := &plan.Plan{
		Namespace: "shop", Name: "p", UID: "a", Generation: 1, Mode: plan.ModeEnforce,
		Matches: []plan.Match{{Hosts: []string{"a.example"}}},
		Limits:  []plan.Limit{{Name: "x", Threshold: 1}, {Name: "y", Threshold: 2}},
	}
	is := *was
	is.UID, is.Generation, is.Mode = "b", 2, plan.ModeShadow
	is.Limits = []plan.Limit{{Name: "y", Threshold: 3}, {Name: "x", Threshold: 1}}
	is.Matches = []plan.Match{{Hosts: []string{"a.example", "b.example"}}}
	g.Expect(changedFields(was, &is)).To(Equal([]fieldChange{
		{"limits[y].threshold", "2", "3"},
		{"matches[0].hosts[1]", "", `"b.example"`},
		{"mode", `"Enforce"`, `"Shadow"`},
	}))
	g.Expect(changedFields(was, was)).To(BeEmpty())
}

// Every field of a spec counts, also one that no plan has.
func TestChangedFieldsOfSpecs(t *testing.T) {
	spec := func(change func(*v1alpha1.RateLimitPolicySpec)) *v1alpha1.RateLimitPolicySpec {
		policy := testpolicy.Make("shop/p").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1m").Obj()
		change(&policy.Spec)
		return &policy.Spec
	}
	plain := spec(func(*v1alpha1.RateLimitPolicySpec) {})
	for name, tc := range map[string]struct {
		change func(*v1alpha1.RateLimitPolicySpec)
		want   []fieldChange
	}{
		"a factor":   {func(s *v1alpha1.RateLimitPolicySpec) { s.Exceptions.MaxFactor = new(int32(1000)) }, []fieldChange{{"exceptions.maxFactor", "", "1000"}}},
		"no actions": {func(s *v1alpha1.RateLimitPolicySpec) { s.Exceptions.Actions = []v1alpha1.AcceptedAction{} }, []fieldChange{{"exceptions.actions", "", "[]"}}},
		"actions": {
			func(s *v1alpha1.RateLimitPolicySpec) {
				s.Exceptions.Actions = []v1alpha1.AcceptedAction{"Limit", "Allow"}
			},
			[]fieldChange{{"exceptions.actions[0]", "", `"Limit"`}, {"exceptions.actions[1]", "", `"Allow"`}},
		},
		"a window": {func(s *v1alpha1.RateLimitPolicySpec) { s.Limits[0].Window = "2m" }, []fieldChange{{"limits[l].window", `"1m"`, `"2m"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(changedFields(plain, spec(tc.change))).To(Equal(tc.want))
			g.Expect(changedFields(spec(tc.change), spec(tc.change))).To(BeEmpty())
		})
	}
	g := NewWithT(t)
	was := &v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"a", "b.c"}}
	is := &v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"d", "b.c"}}
	g.Expect(changedFields(setOf(was), setOf(is))).To(Equal([]fieldChange{{"keys.a", "true", ""}, {"keys.d", "", "true"}}))
}

func TestOverKeys(t *testing.T) {
	g := NewWithT(t)
	limit := func(name string, threshold, window int64) plan.Limit {
		return plan.Limit{Name: name, Algorithm: plan.SlidingLog, Threshold: threshold, WindowMillis: window}
	}
	was := &plan.Plan{Limits: []plan.Limit{limit("kept", 10, 60_000), limit("fresh", 10, 60_000)}}
	is := &plan.Plan{Limits: []plan.Limit{limit("kept", 5, 60_000), limit("fresh", 5, 30_000)}, Overrides: []plan.Override{
		{Name: "vip", Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "kept", Threshold: 100}}},
	}}
	is.Limits[1].Algorithm = plan.FixedWindow
	key := &httptypes.ListedKey{Key: []string{"bob"}, KeyHash: "h"}
	state := func(override string, used int64) *connect.KeyState {
		s := &connect.KeyState{KeyState: httptypes.KeyState{Override: override}}
		g.Expect(json.Unmarshal([]byte(strings.ReplaceAll(
			`{"limits":[{"limit":"kept","used":N},{"limit":"fresh","used":N}]}`, "N", connect.Number(used))), s)).To(Succeed())
		s.Override = override
		return s
	}
	g.Expect(overKeys(was, is, key, state("", 4))).To(BeEmpty())
	g.Expect(overKeys(was, is, key, state("", 5))).To(Equal([]overKey{{Key: key.Key, KeyHash: "h", Limit: "kept", Used: 5, Quota: 5, text: "bob"}}))
	g.Expect(overKeys(was, is, key, state("vip", 50))).To(BeEmpty())
}
