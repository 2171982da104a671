// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// derivedKey is the key of a request for one policy.
type derivedKey struct {
	parts []string
	// missing is true if a part is empty: the request lacks it, or its expression failed.
	missing bool
	// ambiguous is true if a part cannot be read because its header or principal is repeated, or
	// because it is too large. A client can cause both, so onMissingKey does not apply.
	ambiguous bool
}

// deriveKey returns the key of the request, with its parts appended to buffer, and the
// expressions that failed.
func (p *policy) deriveKey(buffer []string, a *plan.Attributes, descriptors []plan.Descriptor) (key derivedKey, failures []expressionFailure) {
	key.parts = buffer
	for i := range p.plan.Key {
		value, err := p.keyValue(i, a, descriptors)
		if errors.Is(err, expression.ErrUnreadable) {
			key.ambiguous = true
		}
		if err != nil && p.keyExpressions[i] != nil {
			failures = append(failures, expressionFailure{policy: p, field: p.keyExpressions[i].field})
		}
		key.missing = key.missing || value == ""
		key.parts = append(key.parts, value)
	}
	return key, failures
}

func (p *policy) keyValue(i int, a *plan.Attributes, descriptors []plan.Descriptor) (string, error) {
	switch part := &p.plan.Key[i]; part.Type {
	case plan.KeyHeader:
		if slices.Contains(a.RepeatedHeaders, part.Header) {
			return "", expression.ErrUnreadable
		}
		return a.Headers[part.Header], nil
	case plan.KeyRemoteAddress:
		return networkOf(a.RemoteAddress, part), nil
	case plan.KeyDescriptor:
		return plan.ValueOf(descriptors, part.Descriptor), nil
	case plan.KeyPrincipal:
		if a.PrincipalRepeated {
			return "", expression.ErrUnreadable
		}
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
