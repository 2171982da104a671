// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"slices"
	"unicode/utf8"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// shownCharacters are how many characters of a masked part are shown, and at most half of it.
const shownCharacters = 4

// keyInList is a key as JSON.
type keyInList struct {
	// Key has the parts of the key; a missing part is empty.
	Key []string `json:"key"`
	// KeyHash stands for the key in state calls. It is empty if the key is Cut.
	KeyHash string `json:"keyHash,omitempty"`
	// Masked is true if only the beginning of a part is shown, because it is the value of a header.
	Masked bool `json:"masked,omitempty"`
	// Cut is true if the key is too long to be kept, and only its beginning is shown.
	Cut bool `json:"cut,omitempty"`
}

// keyInListOf returns the key of the plan, which is nil if it is no longer known. Unless reveal is
// true, it masks the values of headers, and all parts of an unknown plan.
func keyInListOf(p *plan.Plan, key *limiter.ListedKey, reveal bool) keyInList {
	out := keyInList{Key: key.Parts, KeyHash: key.Hash, Cut: key.Cut}
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

// isSecret reports whether the part of the key may be the value of a header. The parts of a cut key are
// not separated.
func isSecret(p *plan.Plan, i int, cut bool) bool {
	isHeader := func(part plan.KeyPart) bool { return part.Type == plan.KeyHeader }
	switch {
	case p == nil:
		return true
	case cut:
		return slices.ContainsFunc(p.Key, isHeader)
	default:
		return i < len(p.Key) && isHeader(p.Key[i])
	}
}

// Mask returns the first characters of the value of a header.
func Mask(text string) string {
	shown := min(shownCharacters, utf8.RuneCountInString(text)/2)
	end := 0
	for range shown {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return text[:end] + "…"
}
