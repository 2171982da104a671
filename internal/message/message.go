// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package message makes texts fit for Kubernetes, which bounds their length, and for terminals.
package message

import (
	"strconv"
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

// Printable replaces what could control a terminal, and what a header must not contain: the characters that
// [strconv.IsPrint] excludes.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}
