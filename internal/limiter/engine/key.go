// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// deriveKey appends the key parts of the request to values. A part that the request lacks
// or whose expression fails is empty, and missing is true.
func (p *policy) deriveKey(values []string, a *plan.Attributes, descriptors []plan.Descriptor) (key []string, missing bool, failures []expressionFailure) {
	for i := range p.plan.Key {
		value, err := p.keyValue(i, a, descriptors)
		if err != nil {
			failures = append(failures, expressionFailure{policy: p, field: p.keyExpressions[i].field})
		}
		missing = missing || value == ""
		values = append(values, value)
	}
	return values, missing, failures
}

func (p *policy) keyValue(i int, a *plan.Attributes, descriptors []plan.Descriptor) (string, error) {
	switch part := &p.plan.Key[i]; part.Type {
	case plan.KeyHeader:
		return a.Headers[part.Header], nil
	case plan.KeyRemoteAddress:
		return networkOf(a.RemoteAddress, part), nil
	case plan.KeyDescriptor:
		return plan.ValueOf(descriptors, part.Descriptor), nil
	case plan.KeyPrincipal:
		return a.Principal, nil
	case plan.KeyExpression:
		return p.keyExpressions[i].evaluate(a, descriptors)
	}
	return "", nil
}

// networkOf returns the network of the address in CIDR notation, or the address itself
// where the prefix length is the whole address.
func networkOf(address netip.Addr, part *plan.KeyPart) string {
	if !address.IsValid() {
		return ""
	}
	bits := part.IPv6PrefixLength
	if address.Is4() {
		bits = part.IPv4PrefixLength
	}
	if bits == address.BitLen() {
		return address.String()
	}
	network, err := address.Prefix(bits)
	if err != nil {
		return "" // cannot happen: the plan bounds prefix lengths
	}
	return network.String()
}
