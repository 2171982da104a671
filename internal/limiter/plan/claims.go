// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"strconv"
)

// Bounds of claims.
const (
	// MaxClaimDepth is the number of objects within each other in which claims are found.
	MaxClaimDepth = 8
	// maxExactInteger is the largest integer of which no other one has the same value as a double.
	maxExactInteger = 1<<53 - 1
)

// ClaimsOf returns the claims of a token by name, from its decoded JSON (RFC 7519, section 4). Those within an object
// have the names of both, with a dot: address.country. The name of a claim that has dots itself comes first.
//
//   - Texts, booleans, and integers below 2^53 are values. Lists, null and other numbers are left out.
//   - Names of more than MaxText bytes are left out, since no policy has them.
func ClaimsOf(payload map[string]any) map[string]string {
	claims := make(map[string]string, len(payload))
	level := map[string]map[string]any{"": payload}
	for range MaxClaimDepth {
		next := map[string]map[string]any{}
		for _, prefix := range slices.Sorted(maps.Keys(level)) {
			addClaims(claims, next, prefix, level[prefix])
		}
		level = next
	}
	return claims
}

// addClaims adds the values of one object to the claims, and the objects in it to objects.
func addClaims(claims map[string]string, objects map[string]map[string]any, prefix string, object map[string]any) {
	for name, value := range object {
		name = prefix + name
		if len(name) > MaxText {
			continue
		}
		if nested, isObject := value.(map[string]any); isObject {
			if _, known := objects[name+"."]; !known {
				objects[name+"."] = nested
			}
			continue
		}
		text, ok := claimText(value)
		if _, known := claims[name]; ok && !known {
			claims[name] = text
		}
	}
}

func claimText(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		if v >= -maxExactInteger && v <= maxExactInteger && v == float64(int64(v)) {
			return strconv.FormatInt(int64(v), 10), true
		}
	}
	return "", false
}
