// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// derivedKey is the key of a request for one policy.
type derivedKey struct {
	parts []string
	given bool // by the check, for all policies
	// missing is true if a part is empty: the request lacks it, or its expression failed.
	missing bool
	// ambiguous is true if a part cannot be read because its header, cookie, query parameter or principal is
	// repeated, because servers may read different values, or because it is too large. A client can cause both, so onMissingKey does not apply.
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
	case plan.KeyCookie:
		return singleValue(a.CookieValues(), part.Cookie)
	case plan.KeyQueryParameter:
		return singleValue(a.QueryValues(), part.QueryParameter)
	case plan.KeyClaim:
		return a.Claims[part.Claim.Payload][part.Claim.Name], nil
	case plan.KeyRemoteAddress:
		return part.Network(a.RemoteAddress), nil
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

func singleValue(values *plan.Values, name string) (string, error) {
	value, ok := values.Get(name)
	if !ok {
		return "", expression.ErrUnreadable
	}
	return value, nil
}

// partsOf returns the parts of the encoded key. Where the encoding has a hash of the only part, an
// override or a key group may name the key with this hash.
func (p *policy) partsOf(key store.Key, namespaces map[string]*keyGroups) []string {
	for i := range p.plan.Overrides {
		for _, named := range p.plan.Overrides[i].Keys {
			if len(named) > store.MaxValueBytes && store.EncodeKey(named) == key {
				return []string{named}
			}
		}
	}
	if named, found := namespaces[p.plan.Namespace].named(key); found && len(p.groups) > 0 {
		return []string{named}
	}
	return key.Parts()
}

// keySeparator separates the parts of an encoded key.
const keySeparator = "|"

// encodedPartsOf returns the encoded parts of the key, as reservations hold them; nil for the shared budget.
func encodedPartsOf(key store.Key) []string {
	if key == store.EncodeKey() {
		return nil
	}
	return strings.Split(string(key), keySeparator)
}

// keyOfEncoded returns the key with the encoded parts. ok is false for a key that neither a request nor an
// overflow of the policy can have.
func (p *policy) keyOfEncoded(parts []string) (key store.Key, ok bool) {
	if len(parts) == 0 {
		return store.EncodeKey(), true
	}
	if len(parts) == 1 && p.base.stored.IsOverflowKey(store.Key(parts[0])) {
		return store.Key(parts[0]), true
	}
	if len(parts) > plan.MaxKeyParts || slices.ContainsFunc(parts, func(part string) bool { return !isEncodedPart(part) }) {
		return "", false
	}
	return store.Key(strings.Join(parts, keySeparator)), true
}

// hashedPartBytes is the length of the encoding of a part that is hashed.
const hashedPartBytes = 1 + 32

// isEncodedPart reports whether the text is the encoding of one part of a key: it encodes again to
// itself, is the missing part, or is a hash.
func isEncodedPart(text string) bool {
	parts := store.Key(text).Parts()
	switch {
	case len(parts) == 0:
		return true
	case len(parts) != 1:
		return false
	case len(text) == hashedPartBytes && text[0] == '#':
		return strings.Trim(text[1:], "0123456789abcdef") == ""
	}
	return string(store.EncodeKey(parts...)) == text
}
