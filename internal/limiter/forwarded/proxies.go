// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package forwarded

import (
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of the proxies whose forwarding headers are
// believed.
type Proxies []netip.Prefix

// NewProxies returns the proxies of those networks. It writes networks of IPv4-mapped IPv6 addresses as IPv4, which is how
// addresses are compared.
func NewProxies(networks []netip.Prefix) Proxies {
	p := slices.Clone(Proxies(networks))
	for i, network := range p {
		if network.Addr().Is4In6() && network.Bits() >= 96 {
			p[i] = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
		}
	}
	return p
}

// Cover reports whether the address is that of a trusted proxy.
func (p Proxies) Contains(address netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Client returns who sent a request that came from the peer with those
// X-Forwarded-For lines. Every proxy appends the address it was called from, so
// the list is read from its right end, as long as the one who wrote the next
// entry is trusted: the client is the first who is not, or else the last there
// is. An entry that is no address ends the reading, and its writer is the
// client: nothing vouches for what is left of it.
func (p Proxies) Client(peer netip.Addr, forwardedFor []string) netip.Addr {
	client := CanonicalAddr(peer)
	hops := strings.Split(strings.Join(forwardedFor, ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !p.Contains(client) {
			break
		}
		address, ok := parseHop(hop)
		if !ok {
			break
		}
		client = address
	}
	return client
}

// parseHop reads an address, which some proxies write with a port, or IPv6 in
// brackets.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.Trim(hop, " \t")
	if address, err := netip.ParseAddr(hop); err == nil {
		return CanonicalAddr(address), true
	}
	if inside, ok := strings.CutSuffix(hop, "]"); ok {
		hop = inside + "]:0"
	}
	withPort, err := netip.ParseAddrPort(hop)
	return CanonicalAddr(withPort.Addr()), err == nil
}

// CanonicalAddr is the one form of an address: IPv4 where it is mapped into IPv6, and
// without the zone, which means nothing to others.
func CanonicalAddr(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }
