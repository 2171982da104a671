// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// countedByAddress has a key of the client address.
func countedByAddress(ipv4, ipv6 int) func(*plan.Plan) {
	return keyed(plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: ipv4, IPv6PrefixLength: ipv6})
}

func fromAddress(address string) *limiter.Check {
	return &limiter.Check{Cost: 1, Policies: []string{"a/x"}, Attributes: plan.Attributes{RemoteAddress: netip.MustParseAddr(address)}}
}

// An address in an override or a key group stands for the network that the policy counts as one client, whatever its spelling:
// a denial is never silently void.
func TestAddressesInOverridesAndGroupsApply(t *testing.T) {
	for name, tc := range map[string]struct {
		key    string
		denied []string
		others []string
	}{
		"an address":             {"2001:db8:1:2::9", []string{"2001:db8:1:2::9", "2001:db8:1:2::a"}, []string{"2001:db8:1:3::9"}},
		"in upper case":          {"2001:DB8:1:2::9", []string{"2001:db8:1:2::9"}, []string{"2001:db8:1:3::9"}},
		"written out":            {"2001:0db8:0001:0002:0:0:0:9", []string{"2001:db8:1:2::9"}, []string{"2001:db8:1:3::9"}},
		"its network":            {"2001:DB8:9::/64", []string{"2001:db8:9::1"}, []string{"2001:db8:9:1::1"}},
		"a network inside":       {"2001:db8:9::8/125", []string{"2001:db8:9::1"}, []string{"2001:db8:9:1::1"}},
		"a network with hosts":   {"2001:db8:9::7/64", []string{"2001:db8:9::1"}, []string{"2001:db8:9:1::1"}},
		"a wider network":        {"2001:db8::/32", nil, []string{"2001:db8::1", "2001:db8:1::1"}},
		"an IPv4 address":        {"192.0.2.9", []string{"192.0.2.9", "192.0.2.200"}, []string{"192.0.3.9"}},
		"an IPv4-mapped address": {"::ffff:192.0.2.9", []string{"192.0.2.10"}, []string{"192.0.3.9"}},
		"no address":             {"alice", nil, []string{"192.0.2.9"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			address := countedByAddress(24, 64)
			selected := newFixture(makePlan("a/x", address, overridden(deny(keys(tc.key)))))
			grouped := newFixture()
			grouped.Use(index.NewSnapshotOf(1, []plan.Record{
				makePlan("a/x", address, overridden(deny(plan.Override{Groups: []string{"bad"}}))), keyGroup("bad-0", "bad", "alice", tc.key),
			}))
			for _, f := range []*fixture{selected, grouped} {
				for _, from := range tc.denied {
					g.Expect(f.decide(t, fromAddress(from))).To(HaveField("Reason", limiter.ReasonDeniedByOverride), from)
				}
				for _, from := range tc.others {
					g.Expect(f.decide(t, fromAddress(from))).To(HaveField("Reason", limiter.ReasonAllowed), from)
				}
				given := fromAddress("203.0.113.1")
				given.Key = []string{tc.key}
				g.Expect(f.decide(t, given)).To(HaveField("Reason", limiter.ReasonDeniedByOverride), "a check that gives the key as it is written")
			}
		})
	}
}

// A header that looks like an address is compared as it is.
func TestAddressesInOtherKeysAreTexts(t *testing.T) {
	g := NewWithT(t)
	f := newFixture()
	f.Use(index.NewSnapshotOf(1, []plan.Record{
		makePlan("a/x", keyed(apiKey), overridden(deny(plan.Override{Groups: []string{"bad"}}), allow(keys("2001:DB8::8")))),
		keyGroup("bad-0", "bad", "2001:DB8::9"),
	}))
	for key, reason := range map[string]limiter.Reason{
		"2001:DB8::9": limiter.ReasonDeniedByOverride, "2001:db8::9": limiter.ReasonAllowed,
		"2001:DB8::8": limiter.ReasonExempt, "2001:db8::8": limiter.ReasonAllowed,
	} {
		g.Expect(f.decide(t, &limiter.Check{Cost: 1, Policies: []string{"a/x"}, Attributes: withKey(key)})).To(HaveField("Reason", reason), key)
	}
}

// Each address has the groups with a key that FitKey brings to its network, in each of several policies with other networks.
func TestRandomAddressesInGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	address := func() netip.Addr {
		if r.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(3)), byte(r.IntN(4))})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, 7: byte(r.IntN(3)), 15: byte(r.IntN(4))})
	}
	denied := 0
	for range 60 {
		g := NewWithT(t)
		records := []plan.Record{}
		groups := map[string][]string{}
		for i := range 1 + r.IntN(4) {
			group := fmt.Sprint("g", r.IntN(2))
			var all []string
			for range 1 + r.IntN(4) {
				key := address()
				all = append(all, key.String(), netip.PrefixFrom(key, r.IntN(key.BitLen()+1)).String())
			}
			all = slices.Compact(slices.Sorted(slices.Values(all)))
			groups[group] = append(groups[group], all...)
			records = append(records, keyGroup(fmt.Sprint("k", i), group, all...))
		}
		p := makePlan("a/x", countedByAddress(r.IntN(33), r.IntN(129)), overridden(deny(plan.Override{Groups: []string{"g0"}})))
		f := newFixture()
		f.Use(index.NewSnapshotOf(1, append(records, p)))
		for range 30 {
			from := address()
			want := slices.ContainsFunc(groups["g0"], func(key string) bool {
				fitted, err := p.FitKey([]string{key})
				return err == nil && fitted[0] == p.Key[0].Network(from)
			})
			d := f.decide(t, fromAddress(from.String()))
			expected := Not(Equal(limiter.ReasonDeniedByOverride))
			if want {
				expected = Equal(limiter.ReasonDeniedByOverride)
				denied++
			}
			g.Expect(d.Reason).To(expected, "%s: %v, %+v", from, groups["g0"], p.Key)
		}
	}
	NewWithT(t).Expect(denied).To(BeNumerically(">", 200))
}
