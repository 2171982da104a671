// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package forwarded

import (
	"net/netip"
	"slices"
	"strings"
)

// Proxies is the set of networks of the trusted proxies.
type Proxies []netip.Prefix

// NewProxies returns the proxies in those networks. It converts networks of IPv4-mapped
// IPv6 addresses to IPv4, as CanonicalAddr does with addresses.
func NewProxies(networks []netip.Prefix) Proxies {
	p := slices.Clone(Proxies(networks))
	for i, network := range p {
		if network.Addr().Is4In6() && network.Bits() >= 96 {
			p[i] = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
		}
	}
	return p
}

// Contains reports whether the address, in the form of CanonicalAddr, is a trusted proxy.
func (p Proxies) Contains(address netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Client returns the address of the client of a request that arrived from peer with these
// X-Forwarded-For lines.
//
// Every proxy appends the address of its own peer, so the list is read from the right while
// the proxy that wrote the entry is trusted. The client is the first address that is not a
// trusted proxy, or the leftmost one. An entry that is not an address ends the search: the
// client is the proxy that wrote it.
func (p Proxies) Client(peer netip.Addr, forwardedFor []string) netip.Addr {
	client := CanonicalAddr(peer)
	for _, line := range slices.Backward(forwardedFor) {
		for more := true; more; {
			var hop string
			line, hop, more = cutLast(line)
			if !p.Contains(client) {
				return client
			}
			address, ok := parseHop(hop)
			if !ok {
				return client
			}
			client = address
		}
	}
	return client
}

// cutLast cuts the last entry from a list; more is false if it was the only one.
func cutLast(list string) (rest, last string, more bool) {
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[:i], list[i+1:], true
	}
	return "", list, false
}

// parseHop parses an entry of X-Forwarded-For. Some proxies add a port, or put IPv6 in
// brackets. A valid entry allocates nothing: a client may send thousands.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.Trim(hop, " \t")
	if !strings.HasPrefix(hop, "[") && strings.Count(hop, ":") != 1 {
		address, err := netip.ParseAddr(hop)
		return CanonicalAddr(address), err == nil
	}
	if inside, ok := strings.CutSuffix(hop, "]"); ok {
		hop = inside + "]:0"
	}
	withPort, err := netip.ParseAddrPort(hop)
	return CanonicalAddr(withPort.Addr()), err == nil
}

// CanonicalAddr returns the address in its only form: an IPv4-mapped IPv6 address becomes
// IPv4, and the zone, which has a meaning on one host only, is dropped.
func CanonicalAddr(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }
