// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/test/testplan"
)

func keyGroup() *plan.KeyGroup {
	return &plan.KeyGroup{Namespace: "shop", Name: "gold-07", UID: "u", Generation: 2, Group: "gold", Keys: plan.NewKeyList("acme", "globex")}
}

func exception() *plan.Exception {
	return &plan.Exception{
		Namespace: "shop", Name: "launch", UID: "u", Generation: 2, Policy: "login", Key: []string{"acme"},
		UntilMillis: 1_800_000_000_000, Action: plan.ActionLimit, Limits: []plan.ExceptionLimit{{Name: "burst", Threshold: 2000}}, Reason: "launch",
	}
}

func TestRecordsAreNamedByTheirKind(t *testing.T) {
	g := NewWithT(t)
	for want, r := range map[string]plan.Record{
		"plan shop/login": testplan.Valid(), "keyGroup keygroup:shop/gold-07": keyGroup(), "exception exception:shop/launch": exception(),
	} {
		g.Expect(fmt.Sprint(plan.KindOf(r.ID()), " ", r.ID())).To(Equal(want))
		namespace, name := plan.SplitID(r.ID())
		g.Expect(plan.IDOf(plan.KindOf(r.ID()), namespace, name)).To(Equal(r.ID()))
		data, err := plan.Encode(r)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(plan.Decode(data)).To(Equal(r))
	}
	data, err := plan.Encode(keyGroup())
	g.Expect(err).NotTo(HaveOccurred())
	_, err = plan.DecodePlan(data)
	g.Expect(err).To(MatchError("decode plan: keygroup:shop/gold-07 is a keyGroup"))
}

func keys(n, characters int, character string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%05d", i) + strings.Repeat(character, characters-5)
	}
	return all
}

func TestValidateKeyGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*plan.KeyGroup)
		want string // empty if it is valid
	}{
		"a small one": {func(*plan.KeyGroup) {}, ""},
		"the largest": {func(k *plan.KeyGroup) { k.Keys = plan.NewKeyList(keys(plan.MaxGroupKeys, plan.MaxGroupKey, "\x01")...) }, ""},
		"of wide characters": {func(k *plan.KeyGroup) {
			k.Keys = plan.NewKeyList(keys(plan.MaxGroupKeys, plan.MaxGroupKey, "\u2028")...)
		}, ""},
		"too many keys":       {func(k *plan.KeyGroup) { k.Keys = plan.NewKeyList(keys(plan.MaxGroupKeys+1, 6, "x")...) }, "1001 keys, 1 to 1000 are allowed"},
		"no key":              {func(k *plan.KeyGroup) { k.Keys = plan.NewKeyList() }, "0 keys, 1 to 1000 are allowed"},
		"an empty key":        {func(k *plan.KeyGroup) { k.Keys = plan.NewKeyList("", "a") }, "keys[0] must have 1 to 255 characters"},
		"a long key":          {func(k *plan.KeyGroup) { k.Keys = plan.NewKeyList("a", strings.Repeat("z", 256)) }, "keys[1] must have 1 to 255 characters"},
		"keys without order":  {func(k *plan.KeyGroup) { k.Keys = plan.NewKeyList("globex", "acme") }, `keys[1] "acme" is not above the one before`},
		"a key twice":         {func(k *plan.KeyGroup) { k.Keys = plan.NewKeyList("acme", "acme") }, `keys[1] "acme" is not above the one before`},
		"a group with colons": {func(k *plan.KeyGroup) { k.Group = "a:b" }, `group "a:b" must be a lower-case DNS name`},
		"no name":             {func(k *plan.KeyGroup) { k.Name = "" }, "must be lower-case DNS names"},
	} {
		t.Run(name, func(t *testing.T) {
			k := keyGroup()
			tc.edit(k)
			expectValid(t, k, tc.want)
		})
	}
}

func TestValidateExceptions(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*plan.Exception)
		want string // empty if it is valid
	}{
		"other numbers":   {func(*plan.Exception) {}, ""},
		"a shared budget": {func(e *plan.Exception) { e.Key = nil }, ""},
		"no limit at all": {func(e *plan.Exception) { e.Action, e.Limits = plan.ActionAllow, nil }, ""},
		"the largest": {func(e *plan.Exception) {
			e.Reason, e.Key = strings.Repeat("\x01", plan.MaxReason), keys(plan.MaxKeyParts, 1024, "\x01")
		}, ""},
		"nine parts":          {func(e *plan.Exception) { e.Key = keys(9, 6, "x") }, "key must have at most 8 parts"},
		"an empty part":       {func(e *plan.Exception) { e.Key[0] = "" }, "none of them empty"},
		"no end":              {func(e *plan.Exception) { e.UntilMillis = 0 }, "untilMillis must be positive"},
		"a long reason":       {func(e *plan.Exception) { e.Reason = strings.Repeat("x", 1025) }, "reason is longer than 1024 characters"},
		"Deny":                {func(e *plan.Exception) { e.Action, e.Limits = plan.ActionDeny, nil }, `action "Deny" is not one of`},
		"Allow with limits":   {func(e *plan.Exception) { e.Action = plan.ActionAllow }, `got action "Allow" and 1 limits`},
		"Limit without":       {func(e *plan.Exception) { e.Limits = nil }, `got action "Limit" and 0 limits`},
		"no numbers":          {func(e *plan.Exception) { e.Limits[0].Threshold = 0 }, "limits[0] needs a positive threshold or burst"},
		"a negative burst":    {func(e *plan.Exception) { e.Limits[0].Burst = -1 }, "limits[0] needs a positive threshold or burst"},
		"a large threshold":   {func(e *plan.Exception) { e.Limits[0].Threshold = plan.MaxCost + 1 }, "at most"},
		"a limit twice":       {func(e *plan.Exception) { e.Limits = append(e.Limits, e.Limits[0]) }, `limits[1].name "burst"`},
		"a policy with slash": {func(e *plan.Exception) { e.Policy = "shop/login" }, "must be lower-case DNS names"},
	} {
		t.Run(name, func(t *testing.T) {
			e := exception()
			tc.edit(e)
			expectValid(t, e, tc.want)
		})
	}
}

// expectValid expects that the record is valid and can be encoded, or that it is not valid with that error.
func expectValid(t *testing.T, r plan.Record, want string) {
	t.Helper()
	g := NewWithT(t)
	if want != "" {
		g.Expect(r.Validate()).To(MatchError(ContainSubstring(want)))
		return
	}
	g.Expect(r.Validate()).To(Succeed())
	data, err := plan.Encode(r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Decode(data)).To(Equal(r))
}

func TestValidateGroupsOfOverrides(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*plan.Plan, *plan.Override)
		want string // empty if it is valid
	}{
		"one group":        {func(*plan.Plan, *plan.Override) {}, ""},
		"17 groups":        {func(_ *plan.Plan, o *plan.Override) { o.Groups = keysOf("g", 17) }, "overrides[0] has 17 groups, at most 16"},
		"a key beside it":  {func(_ *plan.Plan, o *plan.Override) { o.Keys = []string{"a"} }, "overrides[0] has another selector beside groups"},
		"a when beside it": {func(_ *plan.Plan, o *plan.Override) { o.When = "true" }, "overrides[0] has another selector beside groups"},
		"a shared budget":  {func(p *plan.Plan, _ *plan.Override) { p.Key = nil }, "overrides[0].groups need a key of one part, not of 0"},
		"a group twice":    {func(_ *plan.Plan, o *plan.Override) { o.Groups = []string{"a", "a"} }, `overrides[0].groups[1] "a" must be`},
	} {
		t.Run(name, func(t *testing.T) {
			p := testplan.Valid()
			p.Overrides = []plan.Override{{Name: "o", Action: plan.ActionAllow, Groups: []string{"gold"}}}
			tc.edit(p, &p.Overrides[0])
			expectValid(t, p, tc.want)
		})
	}
}

func keysOf(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(prefix, i)
	}
	return names
}

func TestSnapshotsOfAllKinds(t *testing.T) {
	g := NewWithT(t)
	early, late := keyGroup(), keyGroup()
	early.Name = "gold-01"
	s := index.NewSnapshotOf(7, []plan.Record{late, exception(), testplan.Valid(), early})
	g.Expect(s.Plans()).To(Equal([]*plan.Plan{testplan.Valid()}))
	g.Expect(s.Groups()).To(Equal([]*plan.KeyGroup{early, late}))
	g.Expect(s.Exceptions()).To(Equal([]*plan.Exception{exception()}))
}
