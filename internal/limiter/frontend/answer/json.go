// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"strconv"
	"unicode/utf8"
)

// The functions of this file append JSON as encoding/json writes it without HTML escapes,
// and without reflection.

// appendName appends the name of a member to an object that is not closed yet.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(append(b, '"'), name...)
	return append(b, `":`...)
}

func appendStringMember(b []byte, name, value string) []byte {
	return appendString(appendName(b, name), value)
}

// appendOptionalMember leaves out an empty string.
func appendOptionalMember(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendStringMember(b, name, value)
}

func appendIntMember(b []byte, name string, value int64) []byte {
	return strconv.AppendInt(appendName(b, name), value, 10)
}

func appendBoolMember(b []byte, name string, value bool) []byte {
	return strconv.AppendBool(appendName(b, name), value)
}

// appendFraction appends a number, 0 or more, in the form of ECMAScript: without an exponent
// unless it is very small or large.
func appendFraction(b []byte, value float64) []byte {
	if value == 0 || value >= 1e-6 && value < 1e21 {
		return strconv.AppendFloat(b, value, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, value, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // e-09 becomes e-9
		b = append(b[:n-2], b[n-1])
	}
	return b
}

// appendString appends a quoted string.
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	start := 0 // of the part that needs no escape and is not appended yet
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		if needsEscape(r, size) {
			b = appendEscape(append(b, text[start:i]...), r)
			start = i + size
		}
		i += size
	}
	return append(append(b, text[start:]...), '"')
}

// needsEscape reports whether the character is escaped. U+2028 and U+2029 end a line in
// JavaScript; a utf8.RuneError of one byte is a byte that is not UTF-8.
func needsEscape(r rune, size int) bool {
	return r < ' ' || r == '"' || r == '\\' || r == '\u2028' || r == '\u2029' || r == utf8.RuneError && size == 1
}

func appendEscape(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	default:
		return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
	}
}
