// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package forwarded

import (
	"net/netip"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// trusting returns proxies that trust the networks.
func trusting(networks ...string) Proxies {
	prefixes := make([]netip.Prefix, len(networks))
	for i, network := range networks {
		prefixes[i] = netip.MustParsePrefix(network)
	}
	return NewProxies(prefixes)
}

func TestClientIsTheNearestUntrustedAddress(t *testing.T) {
	tests := map[string]struct {
		peer string
		via  []string
		want string
	}{
		"nothing forwarded":              {"10.0.0.1", nil, "10.0.0.1"},
		"an empty header":                {"10.0.0.1", []string{""}, "10.0.0.1"},
		"one proxy":                      {"10.0.0.1", []string{"192.0.2.1"}, "192.0.2.1"},
		"two proxies":                    {"10.0.0.1", []string{"192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		"no space":                       {"10.0.0.1", []string{"192.0.2.1,10.0.0.2"}, "192.0.2.1"},
		"tabs":                           {"10.0.0.1", []string{"\t192.0.2.1 \t,\t10.0.0.2\t"}, "192.0.2.1"},
		"several lines":                  {"10.0.0.1", []string{"192.0.2.1", "10.0.0.3, 10.0.0.2"}, "192.0.2.1"},
		"a client in a trusted network":  {"10.0.0.1", []string{"10.0.0.9, 10.0.0.2"}, "10.0.0.9"},
		"a port":                         {"10.0.0.1", []string{"192.0.2.1:4711"}, "192.0.2.1"},
		"IPv6":                           {"10.0.0.1", []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv6 in brackets":               {"10.0.0.1", []string{"[2001:db8::1]"}, "2001:db8::1"},
		"IPv6 with a port":               {"10.0.0.1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		"IPv6 in full":                   {"10.0.0.1", []string{"2001:0DB8:0:0::0001"}, "2001:db8::1"},
		"mapped IPv4":                    {"10.0.0.1", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		"a mapped proxy":                 {"::ffff:10.0.0.1", []string{"192.0.2.1, ::ffff:10.0.0.2"}, "192.0.2.1"},
		"a zone":                         {"10.0.0.1", []string{"fe80::1%eth0"}, "fe80::1"},
		"a peer with a zone":             {"fe80::2%eth0", []string{"192.0.2.1"}, "fe80::2"},
		"IPv6 proxies":                   {"fd00::1", []string{"192.0.2.1, fd00::2"}, "192.0.2.1"},
		"spoofed by the client":          {"10.0.0.1", []string{"203.0.113.9, 192.0.2.1"}, "192.0.2.1"},
		"spoofed as a proxy":             {"10.0.0.1", []string{"203.0.113.9, 10.0.0.7, 192.0.2.1"}, "192.0.2.1"},
		"spoofed by another header line": {"10.0.0.1", []string{"203.0.113.9", "192.0.2.1"}, "192.0.2.1"},
		"spoofed behind two":             {"10.0.0.1", []string{"203.0.113.9, 192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		"spoofed without a proxy":        {"192.0.2.1", []string{"203.0.113.9"}, "192.0.2.1"},
		"spoofed with a proxy address":   {"192.0.2.1", []string{"203.0.113.9, 10.0.0.1"}, "192.0.2.1"},
		"spoofed with a malformed entry": {"10.0.0.1", []string{"], 192.0.2.1"}, "192.0.2.1"},
		"spoofed with an empty entry":    {"10.0.0.1", []string{", 192.0.2.1"}, "192.0.2.1"},
		"unknown":                        {"10.0.0.1", []string{"192.0.2.1, unknown"}, "10.0.0.1"},
		"unknown behind a proxy":         {"10.0.0.1", []string{"192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		"an empty entry":                 {"10.0.0.1", []string{"192.0.2.1, , 10.0.0.2"}, "10.0.0.2"},
		"a comma at the end":             {"10.0.0.1", []string{"192.0.2.1,"}, "10.0.0.1"},
		"IPv4 in brackets":               {"10.0.0.1", []string{"[192.0.2.1]"}, "10.0.0.1"},
		"half a bracket":                 {"10.0.0.1", []string{"2001:db8::1]"}, "10.0.0.1"},
		"a leading zero":                 {"10.0.0.1", []string{"192.0.2.01"}, "10.0.0.1"},
		"a number":                       {"10.0.0.1", []string{"3221225985"}, "10.0.0.1"},
		"a network":                      {"10.0.0.1", []string{"192.0.2.1/32"}, "10.0.0.1"},
		"a host":                         {"10.0.0.1", []string{"localhost"}, "10.0.0.1"},
		"a port too large":               {"10.0.0.1", []string{"192.0.2.1:65536"}, "10.0.0.1"},
		"an empty port":                  {"10.0.0.1", []string{"192.0.2.1:"}, "10.0.0.1"},
		"quoted":                         {"10.0.0.1", []string{`"192.0.2.1"`}, "10.0.0.1"},
		"a NUL":                          {"10.0.0.1", []string{"192.0.2.1\x00"}, "10.0.0.1"},
	}
	trusted := trusting("10.0.0.0/8", "fd00::/8")
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := trusted.Client(netip.MustParseAddr(tc.peer), tc.via)
			NewWithT(t).Expect(got.String()).To(Equal(tc.want))
		})
	}
}

func TestNetworksContainAddresses(t *testing.T) {
	g := NewWithT(t)
	address := netip.MustParseAddr
	g.Expect(trusting().Contains(address("127.0.0.1"))).To(BeFalse())
	g.Expect(trusting("10.0.0.0/8").Contains(netip.Addr{})).To(BeFalse())
	g.Expect(trusting("::ffff:10.0.0.0/104").Contains(address("10.9.9.9"))).To(BeTrue(), "a mapped network is an IPv4 network")
	g.Expect(trusting("::/0").Contains(address("10.0.0.1"))).To(BeFalse())
}

func TestTrustInEveryAddressReturnsTheFirstEntry(t *testing.T) {
	client := trusting("0.0.0.0/0").Client(netip.MustParseAddr("10.0.0.1"), []string{"192.0.2.1, 203.0.113.1"})
	NewWithT(t).Expect(client.String()).To(Equal("192.0.2.1"))
}

func TestPeerWithoutAddressHasNoClient(t *testing.T) {
	client := trusting("10.0.0.0/8").Client(netip.Addr{}, []string{"192.0.2.1"})
	NewWithT(t).Expect(client.IsValid()).To(BeFalse())
}

// A client may fill the header with addresses of trusted proxies.
func TestLongListsAllocateNothing(t *testing.T) {
	trusted, peer := trusting("10.0.0.0/8"), netip.MustParseAddr("10.0.0.1")
	for _, hop := range []string{"10.0.0.2", "10.0.0.2:80", "::ffff:10.0.0.2", "[::ffff:10.0.0.2]:80", "[::ffff:10.0.0.2]"} {
		list := []string{strings.Repeat(hop+",", 5000) + hop}
		allocations := testing.AllocsPerRun(5, func() { trusted.Client(peer, list) })
		limit := 0.0
		if strings.HasSuffix(hop, "]") {
			limit = 5001 // a port is added
		}
		NewWithT(t).Expect(allocations).To(BeNumerically("<=", limit), hop)
	}
}

// FuzzClientAddress expects the entry of the trusted proxy to decide, whatever the client sends
// before it.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range []string{
		"", ",", "203.0.113.9", "10.0.0.1", "203.0.113.9, 10.0.0.1", "[::1]:80", "::ffff:10.0.0.1", "fe80::1%,", "unknown", "]",
	} {
		f.Add(seed, "192.0.2.1")
	}
	trusted := trusting("10.0.0.0/8")
	proxy := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, sent, from string) {
		g := NewWithT(t)
		client, err := netip.ParseAddr(from)
		if err != nil || strings.Contains(from, ",") || trusted.Contains(CanonicalAddr(client)) {
			client = netip.MustParseAddr("192.0.2.1")
		}
		client = CanonicalAddr(client)
		g.Expect(trusted.Client(client, []string{sent})).To(Equal(client), "a client that is its own peer")
		g.Expect(trusted.Client(proxy, []string{sent + "," + client.String()})).To(Equal(client))
		g.Expect(trusted.Client(proxy, []string{sent, client.String() + ",10.0.0.2"})).To(Equal(client))
		alone := trusted.Client(proxy, []string{sent})
		g.Expect(alone.IsValid() && alone.Zone() == "" && !alone.Is4In6()).To(BeTrue())
	})
}
