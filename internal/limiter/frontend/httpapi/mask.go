// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// shownCharacters are how many characters of a masked part are shown, and at most half of it.
const shownCharacters = 4

// listedKeyOf returns the key of the plan, which is nil if it is no longer known. Unless reveal is
// true, it masks the values of headers, cookies and query parameters, and all parts of an unknown plan.
func listedKeyOf(p *plan.Plan, key *limiter.ListedKey, reveal bool) httptypes.ListedKey {
	out := httptypes.ListedKey{Key: key.Parts, KeyHash: key.Hash, Cut: key.Cut}
	if out.Key == nil {
		out.Key = []string{}
	}
	if reveal {
		return out
	}
	for i, part := range out.Key {
		if part != "" && isSecret(p, i, key.Cut) {
			if !out.Masked {
				out.Key, out.Masked = slices.Clone(out.Key), true
			}
			out.Key[i] = Mask(part)
		}
	}
	return out
}

// isSecret reports whether the part of the key may be a credential. The parts of a cut key are
// not separated.
func isSecret(p *plan.Plan, i int, cut bool) bool {
	switch {
	case p == nil:
		return true
	case cut:
		return slices.ContainsFunc(p.Key, func(part plan.KeyPart) bool { return part.IsSecret() })
	default:
		return i < len(p.Key) && p.Key[i].IsSecret()
	}
}

// Mask returns the first characters of a value.
func Mask(text string) string {
	characters := []rune(text)
	return string(characters[:min(shownCharacters, len(characters)/2)]) + "…"
}
