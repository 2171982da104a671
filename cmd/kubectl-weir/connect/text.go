// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/message"
)

// MaxShownKey is how many characters of a key a table shows.
const MaxShownKey = 60

// ListedText returns the key for a table. Clients choose it, so it is quoted where it could confuse a
// terminal or the columns.
func ListedText(k *httptypes.ListedKey) string {
	text := PartsText(k.Key)
	if k.Cut {
		text += "…"
	}
	if runes := []rune(text); len(runes) > MaxShownKey {
		text = string(runes[:MaxShownKey-1]) + "…"
	}
	return text
}

// PartsText returns the parts of a key for a terminal.
func PartsText(key []string) string {
	if len(key) == 0 {
		return "(shared)"
	}
	parts := make([]string, len(key))
	for i, part := range key {
		parts[i] = Displayed(part)
	}
	return strings.Join(parts, " ")
}

// Displayed returns the part of a key: quoted if it has spaces, quotes or characters that are not
// printable.
func Displayed(part string) string {
	quoted := strconv.Quote(part)
	switch {
	case part == "":
		return "(missing)"
	case quoted == `"`+part+`"` && !strings.ContainsAny(part, " ()"):
		return part
	default:
		return quoted
	}
}

// HashText returns the hash of a key for a table.
func HashText(hash string) string {
	return cmp.Or(message.Printable(hash), "-")
}
