// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

// KeyPartType is the source of one key part.
type KeyPartType string

// The sources of key parts.
const (
	KeyHeader         KeyPartType = "Header"
	KeyCookie         KeyPartType = "Cookie"
	KeyQueryParameter KeyPartType = "QueryParameter"
	KeyClaim          KeyPartType = "Claim"
	KeyRemoteAddress  KeyPartType = "RemoteAddress"
	KeyDescriptor     KeyPartType = "Descriptor"
	KeyPrincipal      KeyPartType = "Principal"
	KeyExpression     KeyPartType = "Expression"
)

// KeyPart is one part of the key.
type KeyPart struct {
	Type             KeyPartType `json:"type"`
	Header           string      `json:"header,omitempty"` // lower case
	Cookie           string      `json:"cookie,omitempty"`
	QueryParameter   string      `json:"queryParameter,omitempty"`
	Claim            *Claim      `json:"claim,omitempty"`
	IPv4PrefixLength int         `json:"ipv4PrefixLength,omitempty"`
	IPv6PrefixLength int         `json:"ipv6PrefixLength,omitempty"`
	Descriptor       string      `json:"descriptor,omitempty"` // the key of a descriptor entry
	Expression       string      `json:"expression,omitempty"` // yields a string
}

// Claim names a claim of a verified token.
type Claim struct {
	Payload string `json:"payload"`
	Name    string `json:"name"`
}

func (p *Plan) validateKey(fail func(string, ...any)) {
	if len(p.Key) > MaxKeyParts {
		fail("%d key parts, at most %d", len(p.Key), MaxKeyParts)
	}
	for i := range p.Key {
		part, at := &p.Key[i], fmt.Sprintf("key[%d]", i)
		requireOneOf(fail, at+".type", part.Type,
			KeyHeader, KeyCookie, KeyQueryParameter, KeyClaim, KeyRemoteAddress, KeyDescriptor, KeyPrincipal, KeyExpression)
		part.validateName(fail, at)
		if part.IPv4PrefixLength < 0 || part.IPv4PrefixLength > 32 {
			fail("%s.ipv4PrefixLength %d is not in 0..32", at, part.IPv4PrefixLength)
		}
		if part.IPv6PrefixLength < 0 || part.IPv6PrefixLength > 128 {
			fail("%s.ipv6PrefixLength %d is not in 0..128", at, part.IPv6PrefixLength)
		}
	}
}

// validateName validates what the type of the part needs, and no other one has.
func (p *KeyPart) validateName(fail func(string, ...any), at string) {
	requireFor := func(needed KeyPartType, field, value string, most int) {
		if (p.Type == needed) != (value != "") || longerThan(value, most) {
			fail("%s.%s must have 1 to %d characters if type is %s, and must be empty otherwise", at, field, most, needed)
		}
	}
	requireFor(KeyCookie, "cookie", p.Cookie, MaxText)
	requireFor(KeyQueryParameter, "queryParameter", p.QueryParameter, MaxText)
	requireFor(KeyDescriptor, "descriptor", p.Descriptor, MaxText)
	requireFor(KeyExpression, "expression", p.Expression, MaxExpression)
	if (p.Type == KeyClaim) != (p.Claim != nil) {
		fail("%s.claim must be set if type is Claim, and only then", at)
	}
	if c := p.Claim; c != nil && (c.Payload == "" || c.Name == "" || longerThan(c.Payload, MaxText) || longerThan(c.Name, MaxText)) {
		fail("%s.claim must have a payload and a name of 1 to %d characters", at, MaxText)
	}
}
