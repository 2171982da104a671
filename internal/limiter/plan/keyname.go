// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Network returns the network of the address in CIDR notation, or the address itself where the
// prefix length is the whole address. It is empty for an invalid address.
func (p *KeyPart) Network(address netip.Addr) string {
	if !address.IsValid() {
		return ""
	}
	bits := p.bitsOf(address)
	if bits == address.BitLen() {
		return address.String()
	}
	network, err := address.Prefix(bits)
	if err != nil {
		return "" // cannot happen: the plan bounds prefix lengths
	}
	return network.String()
}

// bitsOf returns the prefix length of the networks that count as one client.
func (p *KeyPart) bitsOf(address netip.Addr) int {
	if address.Is4() {
		return p.IPv4PrefixLength
	}
	return p.IPv6PrefixLength
}

// Name names the part for a selection by its value: the name of the header, the cookie, the parameter or
// the claim, the key of the descriptor entry, or "remoteAddress", "principal" or "expression". Two parts may have one name.
func (p *KeyPart) Name() string {
	switch p.Type {
	case KeyHeader:
		return p.Header
	case KeyCookie:
		return p.Cookie
	case KeyQueryParameter:
		return p.QueryParameter
	case KeyClaim:
		return p.Claim.Name
	case KeyDescriptor:
		return p.Descriptor
	case KeyRemoteAddress:
		return "remoteAddress"
	default:
		return strings.ToLower(string(p.Type))
	}
}

// describe describes the part to people, as in "header X-Account".
func (p *KeyPart) describe() string {
	switch p.Type {
	case KeyHeader:
		return "header " + http.CanonicalHeaderKey(p.Header)
	case KeyCookie:
		return "cookie " + p.Cookie
	case KeyQueryParameter:
		return "query parameter " + p.QueryParameter
	case KeyClaim:
		return "claim " + p.Claim.Payload + " " + p.Claim.Name
	case KeyDescriptor:
		return "descriptor " + p.Descriptor
	case KeyRemoteAddress:
		return "client address"
	default:
		return strings.ToLower(string(p.Type))
	}
}

// IsSecret reports whether the value may be a credential that the client sent: of a header, a cookie or a parameter.
func (p *KeyPart) IsSecret() bool {
	return p.Type == KeyHeader || p.Type == KeyCookie || p.Type == KeyQueryParameter
}

// DescribeKey describes the parts of the key to people, as in "[header X-Account, client address]".
func (p *Plan) DescribeKey() string {
	parts := make([]string, len(p.Key))
	for i := range p.Key {
		parts[i] = p.Key[i].describe()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// KeyError reports a key that no request can have under the policy.
type KeyError struct {
	// Part is the index of the part that is wrong, -1 for a wrong number of parts.
	Part int
	// Problem is why, as in "must be an IP address".
	Problem string
}

// Error implements error.
func (e *KeyError) Error() string { return e.Problem }

// CountsAddresses reports whether the key of the policy is the client address alone.
func (p *Plan) CountsAddresses() bool { return len(p.Key) == 1 && p.Key[0].Type == KeyRemoteAddress }

// KeysOf returns the keys of the override as FitKey returns them; a key that no request can have stays as it is.
func (p *Plan) KeysOf(o *Override) []string {
	if !p.CountsAddresses() {
		return o.Keys
	}
	keys := slices.Clone(o.Keys)
	for i, key := range keys {
		if value, problem := p.Key[0].Fit(key); problem == "" {
			keys[i] = value
		}
	}
	return keys
}

// IsInside reports whether the key is an address or a network inside a larger network that the policy counts as one client:
// it then stands for that network.
func (p *Plan) IsInside(key string) bool {
	if !p.CountsAddresses() {
		return false
	}
	network, err := ParseNetwork(key)
	return err == nil && network.Bits() > p.Key[0].bitsOf(network.Addr())
}

// FitKey returns the key of the requests that the parts mean: it brings addresses to the network that
// the policy counts as one client, whatever their spelling. An empty part is one that requests lack. Errors are *KeyError.
func (p *Plan) FitKey(parts []string) ([]string, error) {
	if len(parts) != len(p.Key) {
		return nil, &KeyError{Part: -1, Problem: p.countProblem()}
	}
	fitted := slices.Clone(parts)
	for i := range p.Key {
		if parts[i] == "" {
			continue
		}
		value, problem := p.Key[i].Fit(parts[i])
		if problem != "" {
			return nil, &KeyError{Part: i, Problem: problem}
		}
		fitted[i] = value
	}
	return fitted, nil
}

// MatchesPart reports whether a part of a key under the policy has the value: the part with the name,
// or any if it is empty. An address is in its network.
func (p *Plan) MatchesPart(key []string, name, value string) bool {
	if len(key) != len(p.Key) { // callers gave checks a key of another form
		return name == "" && slices.Contains(key, value)
	}
	for i := range p.Key {
		part := &p.Key[i]
		if name != "" && !strings.EqualFold(name, part.Name()) {
			continue
		}
		if key[i] == value {
			return true
		}
		if part.Type == KeyRemoteAddress {
			if network, problem := part.Fit(value); problem == "" && network == key[i] {
				return true
			}
		}
	}
	return false
}

// countProblem returns how many parts the key has.
func (p *Plan) countProblem() string {
	switch len(p.Key) {
	case 0:
		return p.ID() + " has no key: omit it"
	case 1:
		return p.ID() + " has the key " + p.DescribeKey() + ": give one part"
	case 2:
		return p.ID() + " has the key " + p.DescribeKey() + ": give both parts in this order"
	default:
		return fmt.Sprintf("%s has the key %s: give all %d parts in this order", p.ID(), p.DescribeKey(), len(p.Key))
	}
}

// Fit returns the value of the part in requests that the text means, of an address the network that the policy counts as one
// client; or why no request has it.
func (p *KeyPart) Fit(text string) (value, problem string) {
	switch {
	case p.Trims(text):
		return "", "must not begin or end with spaces, which are removed from the values of requests"
	case p.Type != KeyRemoteAddress:
		return text, ""
	}
	network, err := ParseNetwork(text)
	if err != nil {
		return "", "must be an IP address, as the policy's key has the client address"
	}
	if bits := p.bitsOf(network.Addr()); network.Bits() < bits {
		return "", fmt.Sprintf("is wider than the /%d that the policy counts as one client: name one of them", bits)
	}
	return p.Network(network.Addr()), ""
}

// Trims reports whether the text begins or ends with spaces that the values of the part in requests never have.
func (p *KeyPart) Trims(text string) bool {
	switch p.Type {
	case KeyHeader, KeyDescriptor:
		return TrimValue(text) != text
	case KeyCookie, KeyQueryParameter, KeyRemoteAddress:
		return strings.TrimSpace(text) != text
	default:
		return false
	}
}

var errNoAddress = errors.New("neither an IP address nor a network")

// ParseNetwork returns the network of the text, or of an address the network that has only the address. An IPv4-mapped address
// is an IPv4 address; a zone is removed. Most other texts cost no allocation.
func ParseNetwork(text string) (netip.Prefix, error) {
	if !strings.ContainsAny(text, ".:") {
		return netip.Prefix{}, errNoAddress
	}
	if strings.Contains(text, "/") {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return netip.Prefix{}, err
		}
		address := network.Addr().Unmap()
		return netip.PrefixFrom(address, max(0, network.Bits()-network.Addr().BitLen()+address.BitLen())), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	address = normalizeAddress(address)
	return netip.PrefixFrom(address, address.BitLen()), nil
}
