// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func keyGroup(name, group string, keys ...string) v1alpha1.RateLimitKeyGroup {
	return v1alpha1.RateLimitKeyGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: group, Keys: keys},
	}
}

func policyWith(overrides ...v1alpha1.Override) *v1alpha1.RateLimitPolicy {
	return policy().Key(testpolicy.PrincipalPart()).Limit("l", fixed, 5, "1m").Override(overrides...).Obj()
}

func TestGroups(t *testing.T) {
	t.Parallel()
	tiers := []v1alpha1.Override{override("first", groups("gold", "trial")), override("second", groups("silver")), override("third", groups("silver", "bronze"))}
	for name, tc := range map[string]struct {
		overrides []v1alpha1.Override
		keyGroups []v1alpha1.RateLimitKeyGroup
		want      []string
	}{
		"no groups": {[]v1alpha1.Override{override("a", keys("x"))}, []v1alpha1.RateLimitKeyGroup{keyGroup("g", "gold", "x")}, nil},
		"groups without keys": {[]v1alpha1.Override{override("a", groups("gold", "silver"))}, []v1alpha1.RateLimitKeyGroup{keyGroup("g", "gold", "x")}, []string{
			"spec.overrides[0].groups[1]: no RateLimitKeyGroup of the Namespace has keys of the group silver",
		}},
		"a key in two groups of one override": {
			[]v1alpha1.Override{override("a", groups("gold", "silver"))},
			[]v1alpha1.RateLimitKeyGroup{keyGroup("g", "gold", "x"), keyGroup("s", "silver", "x")},
			nil,
		},
		"a key in two objects of one group": {
			[]v1alpha1.Override{override("a", groups("gold"))},
			[]v1alpha1.RateLimitKeyGroup{keyGroup("g", "gold", "x"), keyGroup("h", "gold", "x")},
			nil,
		},
		"keys in groups of several overrides": {
			tiers,
			[]v1alpha1.RateLimitKeyGroup{
				keyGroup("b", "bronze", "x", "y", "z", "w"), keyGroup("s", "silver", "y", "v"), keyGroup("s2", "silver", "y"),
				keyGroup("g", "gold", "x", "y"), keyGroup("t", "trial", "x"), keyGroup("o", "other", "w"),
			},
			[]string{
				"spec.overrides[1].groups[0]: 1 of its keys are also in groups of earlier overrides, which decide; the first is spec.overrides[0] (first)",
				"spec.overrides[2].groups[1]: 2 of its keys are also in groups of earlier overrides, which decide; the first is spec.overrides[0] (first)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := policyWith(tc.overrides...)
			of, problems := compile.Compile(policy, compile.Everything(), time.Time{})
			NewWithT(t).Expect(problems).To(BeEmpty())
			NewWithT(t).Expect((&Review{}).Groups(policy, of, tc.keyGroups)).To(Equal(tc.want))
		})
	}
}

// Keys of groups that stand for a network, or that no request has, are counted, and never named.
func TestGroupsOfAddresses(t *testing.T) {
	t.Parallel()
	b := policy().Key(testpolicy.RemoteAddressPart()).Limit("l", fixed, 5, "1m").Override(override("a", groups("gold", "silver")))
	warnings := (&Review{}).Groups(b.Obj(), planOf(t, b), []v1alpha1.RateLimitKeyGroup{
		keyGroup("g", "gold", "2001:db8:1:2::9", "2001:DB8:3::/64", "192.0.2.9", " spaced ", "alice"), keyGroup("h", "gold", "2001:db8::1", "2001:db8::/32"),
		keyGroup("s", "silver", "2001:db8:1::/64", "192.0.2.10"),
	})
	NewWithT(t).Expect(warnings).To(Equal([]string{
		"spec.overrides[0].groups[0]: 2 of its keys are addresses inside networks that the policy counts as one client, and stand for these networks",
		"spec.overrides[0].groups[0]: no request has 3 of its keys: they have outer spaces, or are not addresses, or are wider networks than the policy counts as one client",
	}))
}

func TestKeysOfOverrides(t *testing.T) {
	t.Parallel()
	b := policy().Key(testpolicy.RemoteAddressPart()).Limit("l", fixed, 5, "1m").Override(
		v1alpha1.Override{Name: "a", Keys: []string{"192.0.2.1", "2001:DB8:1::/64", "2001:db8:1:2::9", "2001:db8:1:3::9"}, Action: v1alpha1.OverrideActionDeny},
		v1alpha1.Override{Name: "b", Keys: []string{"alice", "2001:db8:1:2::a", "10.0.0.0/8"}, Action: v1alpha1.OverrideActionDeny},
		v1alpha1.Override{Name: "c", Keys: []string{"::ffff:192.0.2.1", "2001:db8:1:2::b"}, Action: v1alpha1.OverrideActionDeny},
	)
	expect(t, OfPlan(planOf(t, b)),
		"spec.overrides[0].keys[2]: 2001:db8:1:2::9 stands for its network 2001:db8:1:2::/64, which the policy counts as one client; the same holds for other keys of the override: 1",
		"spec.overrides[1].keys[1]: 2001:db8:1:2::a stands for its network 2001:db8:1:2::/64, which the policy counts as one client",
		`spec.overrides[1].keys[0]: no request has the key "alice": it must be an IP address`,
		"spec.overrides[2].keys[1]: 2001:db8:1:2::b stands for its network",
		"spec.overrides[2] (c) is unused: spec.overrides[0] (a) comes first",
	)
	expect(t, OfPlan(planOf(t, policy().Key(testpolicy.HeaderPart("X-A")).Limit("l", fixed, 5, "1m").Override(
		v1alpha1.Override{Name: "a", Keys: []string{"2001:DB8::9", "alice"}, Action: v1alpha1.OverrideActionDeny}))))
}

func TestKeyGroup(t *testing.T) {
	t.Parallel()
	tiers := policyWith(override("best", groups("gold")), override("good", groups("silver", "plus")))
	for name, tc := range map[string]struct {
		group     v1alpha1.RateLimitKeyGroup
		keyGroups []v1alpha1.RateLimitKeyGroup
		policies  []v1alpha1.RateLimitPolicy
		want      []string
	}{
		"unused": {
			keyGroup("g", "gold", "x"), nil,
			[]v1alpha1.RateLimitPolicy{*policyWith(override("a", groups("silver")))},
			[]string{"spec.group: no override of a policy in the Namespace selects the group gold"},
		},
		"used": {keyGroup("g", "gold", "x"), nil, []v1alpha1.RateLimitPolicy{*tiers}, nil},
		"its own older form, and keys of the same override": {
			keyGroup("s", "silver", "x", "y"),
			[]v1alpha1.RateLimitKeyGroup{keyGroup("s", "silver", "x"), keyGroup("p", "plus", "y")},
			[]v1alpha1.RateLimitPolicy{*tiers},
			nil,
		},
		"keys of an earlier override": {
			keyGroup("s", "silver", "e", "d", "c", "b", "a"),
			[]v1alpha1.RateLimitKeyGroup{keyGroup("g", "gold", "a", "b", "c", "x"), keyGroup("g2", "gold", "d", "a")},
			[]v1alpha1.RateLimitPolicy{*tiers},
			[]string{"spec.keys: also in the group gold: \"a\", \"b\", \"c\", 1 more; override best of policy p comes first and decides"},
		},
		"keys of a later override": {
			keyGroup("g", "gold", "a"),
			[]v1alpha1.RateLimitKeyGroup{keyGroup("s", "silver", "a")},
			[]v1alpha1.RateLimitPolicy{*tiers},
			[]string{"spec.keys: also in the group silver: \"a\"; override best of policy p comes first and decides"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect((&Review{}).KeyGroup(&tc.group, tc.keyGroups, tc.policies)).To(Equal(tc.want))
		})
	}
}
