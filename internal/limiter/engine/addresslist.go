// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// addressList is the addresses and networks among the keys of a key group, in the order of their first addresses, of each the
// longest prefix. It finds the keys inside a network by one binary search, so the networks of all policies share it.
type addressList []addressKey

// addressKey is a network as its first address and the bits of its prefix. IPv4 addresses are IPv4-mapped.
type addressKey struct {
	first [16]byte
	bits  uint8
}

func addressKeyOf(network netip.Prefix) addressKey {
	first := network.Masked().Addr()
	return addressKey{first: first.As16(), bits: uint8(128 - first.BitLen() + network.Bits())} //nolint:gosec // at most 128
}

// prefix returns the network, an IPv4 network as an IPv4-mapped one.
func (k addressKey) prefix() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16(k.first), int(k.bits))
}

func compareFirst(a, b addressKey) int { return bytes.Compare(a.first[:], b.first[:]) }

// newAddressList returns the addresses and networks among the keys, nil for none.
func newAddressList(keys plan.KeyList) addressList {
	var all addressList
	for key := range keys.All() {
		if network, err := plan.ParseNetwork(key); err == nil {
			all = append(all, addressKeyOf(network))
		}
	}
	slices.SortFunc(all, func(a, b addressKey) int {
		if order := compareFirst(a, b); order != 0 {
			return order
		}
		return int(b.bits) - int(a.bits)
	})
	return slices.Clip(slices.CompactFunc(all, func(a, b addressKey) bool { return a.first == b.first }))
}

// hasInside reports whether one of the keys is the network or lies inside it.
func (l addressList) hasInside(network addressKey) bool {
	i, found := slices.BinarySearchFunc(l, network, compareFirst)
	if found && l[i].bits < network.bits { // wider; all others that are wider begin elsewhere
		i++
	}
	return i < len(l) && network.prefix().Contains(netip.AddrFrom16(l[i].first))
}
