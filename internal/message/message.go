// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package message makes texts fit for Kubernetes, which bounds their length, and for terminals.
package message

import (
	"strings"
	"unicode/utf8"
)

const ellipsis = "..."

// Truncate returns the text, or its beginning and an ellipsis if it is longer than
// maxBytes. It never cuts a rune in half. maxBytes must be at least 3.
func Truncate(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	end := maxBytes - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// Printable replaces control characters, which a terminal might obey.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, text)
}
