// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

func keyGroup(name, group string, keys ...string) *plan.KeyGroup {
	return &plan.KeyGroup{Namespace: "a", Name: name, Group: group, Keys: plan.NewKeyList(keys...)}
}

// tiered returns the policy a/x with these overrides: gold and then silver, with thresholds of their own.
func tiered(edits ...func(*plan.Plan)) *plan.Plan {
	return makePlan("a/x", append([]func(*plan.Plan){keyed(apiKey), overridden(
		plan.Override{Name: "best", Groups: []string{"gold", "trial"}, Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "burst", Threshold: 500}}},
		plan.Override{Name: "better", Groups: []string{"silver"}, Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "burst", Threshold: 50}}},
		plan.Override{Name: "banned", Groups: []string{"banned"}, Action: plan.ActionDeny},
		plan.Override{Name: "free", Groups: []string{"staff"}, Action: plan.ActionAllow},
	)}, edits...)...)
}

func TestGroupsSelectKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 200) // more bytes than an unhashed value
	f := newFixture()
	f.Use(index.NewSnapshotOf(1, []plan.Record{
		tiered(), makePlan("b/x", keyed(apiKey), overridden(allow(plan.Override{Groups: []string{"gold"}}))),
		keyGroup("gold-0", "gold", "a b", "acme", "both", long), keyGroup("gold-1", "gold", "acme", "globex"),
		keyGroup("silver-0", "silver", "both", "initech"), keyGroup("banned-0", "banned", "mallory"),
		keyGroup("staff-0", "staff", "root"), keyGroup("other-0", "other", "stranger"),
	}))
	type outcome struct {
		override, group string
		threshold       int64
	}
	for key, want := range map[string]outcome{
		"acme":     {"best", "gold", 500},
		"globex":   {"best", "gold", 500},
		"a b":      {"best", "gold", 500},
		long:       {"best", "gold", 500},
		"both":     {"best", "gold", 500},
		"initech":  {"better", "silver", 50},
		"stranger": {"", "", 3},
		"Acme":     {"", "", 3},
		"a%20b":    {"", "", 3},
		"-":        {"", "", 3},
	} {
		t.Run(key[:min(len(key), 10)], func(t *testing.T) {
			g := NewWithT(t)
			l := f.decide(t, clientCheck(key)).Limits[0]
			g.Expect(outcome{l.Override, l.Group, l.Threshold}).To(Equal(want))
			state, err := f.Inspect(t.Context(), "a/x", limiter.KeyName{Parts: []string{key}}, plan.Attributes{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(outcome{state.Override, state.Group, state.Limits[0].Threshold}).To(Equal(want))
			x, err := f.Explain(t.Context(), clientCheck(key))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(outcome{x.Policies[0].Override, x.Policies[0].Group, x.Policies[0].Limits[0].Threshold}).To(Equal(want))

			derived := &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: withKey(key)}
			g.Expect(f.decide(t, derived).Limits[0].Group).To(Equal(want.group), "a key that the policy derives")
		})
	}
	g := NewWithT(t)
	g.Expect(f.decide(t, clientCheck("mallory")).Reason).To(Equal(limiter.ReasonDeniedByOverride))
	g.Expect(f.decide(t, clientCheck("root")).Limits).To(BeEmpty())
	other := clientCheck("acme")
	other.Policies = []string{"b/x"}
	g.Expect(f.decide(t, other).Limits).To(HaveLen(1), "groups of another Namespace select nothing")
	none := &limiter.Check{Policies: []string{"a/x"}, Cost: 1}
	g.Expect(f.decide(t, none).Limits[0].Group).To(BeEmpty(), "no key")
}

// Counters stay when a key joins or leaves a group, and no policy is prepared again.
func TestKeysJoinAndLeaveGroups(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := newFixture()
	p := tiered()
	use := func(revision int64, groups ...plan.Record) {
		f.Use(index.NewSnapshotOf(revision, append(groups, p)))
	}
	used := func(key string) []int64 {
		l := f.decide(t, clientCheck(key)).Limits[0]
		return []int64{l.Used, l.Threshold}
	}
	use(1)
	g.Expect(used("acme")).To(Equal([]int64{1, 3}))
	use(2, keyGroup("gold-0", "gold", "acme"))
	g.Expect(used("acme")).To(Equal([]int64{2, 500}))
	use(3, keyGroup("gold-0", "gold", "acme"), keyGroup("gold-1", "gold", "acme", "globex"))
	use(4, keyGroup("gold-1", "gold", "acme", "globex"))
	g.Expect(used("acme")).To(Equal([]int64{3, 500}))
	g.Expect(used("globex")).To(Equal([]int64{1, 500}))
	use(5, keyGroup("silver-0", "silver", "acme"))
	g.Expect(used("acme")).To(Equal([]int64{4, 50}))
	use(6)
	g.Expect(f.decide(t, clientCheck("acme")).Allowed).To(BeFalse(), "four of three are spent")
}

// Members of a group that the policy selects keep their own budgets in a flood, and take no room from it.
func TestMembersAreKnownInAFlood(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	low := false
	f := newFloodFixture(flood.Limits{PerMinute: 10}, func() bool { return low })
	var members []string
	for i := range 40 {
		members = append(members, fmt.Sprintf("member-%02d", i))
	}
	f.Use(index.NewSnapshotOf(1, []plan.Record{tiered(), keyGroup("gold-0", "gold", members...), keyGroup("other-0", "other", "stranger")}))
	for _, member := range members[:20] {
		g.Expect(f.decide(t, clientCheck(member)).Limits[0].Overflow).To(BeFalse())
	}
	for i := range 10 {
		g.Expect(f.decide(t, clientCheck(fmt.Sprint("invented-", i))).Limits[0].Overflow).To(BeFalse(), "members took no room")
	}
	g.Expect(f.decide(t, clientCheck("one-too-many")).Limits[0].Overflow).To(BeTrue())
	g.Expect(f.decide(t, clientCheck("stranger")).Limits[0].Overflow).To(BeTrue(), "the policy does not select this group")
	for _, member := range members {
		l := f.decide(t, clientCheck(member)).Limits[0]
		g.Expect([]any{l.Overflow, l.Group}).To(Equal([]any{false, "gold"}))
	}
	low = true
	f.store.now = f.store.now.Add(time.Hour)
	g.Expect(f.decide(t, clientCheck(members[0])).Limits[0].Overflow).To(BeFalse())
}
