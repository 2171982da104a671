// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

var (
	accountPart = plan.KeyPart{Type: plan.KeyHeader, Header: "x-account"}
	addressPart = plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 24, IPv6PrefixLength: 64}
	wholePart   = plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 32, IPv6PrefixLength: 128}
	userPart    = plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: "user_id"}
)

func keyedBy(parts ...plan.KeyPart) *plan.Plan {
	return &plan.Plan{Namespace: "shop", Name: "login", Key: parts}
}

func TestFitKeyBringsAddressesToTheirNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		part       plan.KeyPart
		text, want string
	}{
		"an address":               {addressPart, "192.0.2.7", "192.0.2.0/24"},
		"its network":              {addressPart, "192.0.2.0/24", "192.0.2.0/24"},
		"a network with host bits": {addressPart, "192.0.2.7/24", "192.0.2.0/24"},
		"a smaller network":        {addressPart, "192.0.2.128/25", "192.0.2.0/24"},
		"an IPv6 address":          {addressPart, "2001:DB8::1", "2001:db8::/64"},
		"a mapped address":         {addressPart, "::ffff:192.0.2.7", "192.0.2.0/24"},
		"a mapped network":         {addressPart, "::ffff:192.0.2.0/120", "192.0.2.0/24"},
		"a zone":                   {addressPart, "fe80::1%eth0", "fe80::/64"},
		"a whole address":          {wholePart, "192.0.2.7", "192.0.2.7"},
		"a network of one address": {wholePart, "192.0.2.7/32", "192.0.2.7"},
		"another form":             {wholePart, "2001:0DB8:0::1", "2001:db8::1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			given := []string{"user-42", tc.text}
			fitted, err := keyedBy(accountPart, tc.part).FitKey(given)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(fitted).To(Equal([]string{"user-42", tc.want}))
			g.Expect(given[1]).To(Equal(tc.text), "the given key is not changed")
		})
	}
}

func TestFitKeyRejectsWhatNoRequestHas(t *testing.T) {
	for name, tc := range map[string]struct {
		plan    *plan.Plan
		key     []string
		part    int
		problem string
	}{
		"one of two parts":    {keyedBy(accountPart, addressPart), []string{"user-42"}, -1, "shop/login has the key [header X-Account, client address]: give both parts in this order"},
		"two of one part":     {keyedBy(userPart), []string{"a", "b"}, -1, "shop/login has the key [descriptor user_id]: give one part"},
		"no part":             {keyedBy(plan.KeyPart{Type: plan.KeyPrincipal}), nil, -1, "shop/login has the key [principal]: give one part"},
		"two of three":        {keyedBy(accountPart, userPart, plan.KeyPart{Type: plan.KeyExpression}), []string{"a", "b"}, -1, "shop/login has the key [header X-Account, descriptor user_id, expression]: give all 3 parts in this order"},
		"a part of none":      {keyedBy(), []string{"a"}, -1, "shop/login has no key: omit it"},
		"no address":          {keyedBy(accountPart, addressPart), []string{"a", "not-an-address"}, 1, "must be an IP address, as the policy's key has the client address"},
		"outer spaces":        {keyedBy(userPart), []string{" a"}, 0, "must not begin or end with spaces, which are removed from the values of requests"},
		"a wide network":      {keyedBy(addressPart), []string{"192.0.0.0/16"}, 0, "is wider than the /24 that the policy counts as one client: name one of them"},
		"a wide IPv6 network": {keyedBy(addressPart), []string{"2001:db8::/32"}, 0, "is wider than the /64 that the policy counts as one client: name one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := tc.plan.FitKey(tc.key)
			misfit, ok := errors.AsType[*plan.KeyError](err)
			g.Expect(ok).To(BeTrue())
			g.Expect(*misfit).To(Equal(plan.KeyError{Part: tc.part, Problem: tc.problem}))
		})
	}
}

func TestTrims(t *testing.T) {
	for part, want := range map[plan.KeyPartType]bool{
		plan.KeyHeader: true, plan.KeyCookie: true, plan.KeyQueryParameter: true, plan.KeyDescriptor: true, plan.KeyRemoteAddress: true,
		plan.KeyClaim: false, plan.KeyPrincipal: false, plan.KeyExpression: false,
	} {
		p := plan.KeyPart{Type: part}
		for text, hasSpaces := range map[string]bool{"a b": false, " a": true, "a\t": true} {
			NewWithT(t).Expect(p.Trims(text)).To(Equal(want && hasSpaces), "%s %q", part, text)
		}
	}
}

func TestIsInside(t *testing.T) {
	for key, want := range map[string]bool{
		"192.0.2.7": true, "192.0.2.128/25": true, "192.0.2.7/24": false, "192.0.2.0/23": false, "::FFFF:192.0.2.7": true,
		"2001:DB8::1": true, "2001:DB8::/64": false, "alice": false, "a.b": false, "": false,
	} {
		NewWithT(t).Expect(keyedBy(addressPart).IsInside(key)).To(Equal(want), key)
		NewWithT(t).Expect(keyedBy(accountPart).IsInside(key)).To(BeFalse(), key)
	}
}

func TestFitKeyOfAPolicyWithoutKey(t *testing.T) {
	g := NewWithT(t)
	fitted, err := keyedBy().FitKey(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(fitted).To(BeEmpty())
}

func TestMatchesPart(t *testing.T) {
	p := keyedBy(accountPart, addressPart)
	key := []string{"user-42", "192.0.2.0/24"}
	for name, tc := range map[string]struct {
		key         []string
		part, value string
		want        bool
	}{
		"any part":                 {key, "", "user-42", true},
		"the part":                 {key, "X-Account", "user-42", true},
		"another part":             {key, "remoteAddress", "user-42", false},
		"another value":            {key, "", "user-4", false},
		"an address":               {key, "", "192.0.2.7", true},
		"an address by its part":   {key, "REMOTEADDRESS", "192.0.2.7", true},
		"its network":              {key, "", "192.0.2.0/24", true},
		"another address":          {key, "", "192.0.3.7", false},
		"a wide network":           {key, "", "192.0.0.0/16", false},
		"a key of another form":    {[]string{"user-42"}, "", "user-42", true},
		"a part of another form":   {[]string{"user-42"}, "x-account", "user-42", false},
		"the shared key":           {nil, "", "user-42", false},
		"an address in the header": {[]string{"192.0.2.7", "198.51.100.0/24"}, "x-account", "192.0.2.7", true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(p.MatchesPart(tc.key, tc.part, tc.value)).To(Equal(tc.want))
		})
	}
}
