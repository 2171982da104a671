// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weir-dev/weir/internal/limiter"
)

const (
	// maxText is the longest string in a request, in bytes.
	maxText = 8 << 10
	// maxLabel is the number of characters of a member name that an error repeats.
	maxLabel = 64
)

// reader reads one JSON text (RFC 8259) of a known shape.
//
// It is stricter than encoding/json, which accepts duplicate members and members in any
// case, takes null for any value and turns half a surrogate pair into U+FFFD. With each of
// these, two programs can read one text differently, or two keys become one. encoding/json
// also does not report the index of an invalid list element.
//
// The text must be valid UTF-8. Strings are unescaped in place, so the reader owns its data.
// All errors are *limiter.FieldError with a path relative to the value being read.
type reader struct {
	data []byte
	pos  int
}

// invalid returns an error about the value being read.
func invalid(problem string) error { return &limiter.FieldError{Problem: problem} }

// inField prefixes the path of an error with the member or index that holds the value.
func inField(holder string, err error) error {
	e, ok := err.(*limiter.FieldError) //nolint:errorlint // the reader returns nothing else, and never wrapped
	if !ok {
		return err
	}
	if e.Field != "" && e.Field[0] != '[' {
		holder += "."
	}
	e.Field = holder + e.Field
	return e
}

// next skips white space and returns the next byte without consuming it; 0 at the end.
func (r *reader) next() byte {
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// skip consumes c if it is the next byte.
func (r *reader) skip(c byte) bool {
	if r.next() != c || r.pos == len(r.data) {
		return false
	}
	r.pos++
	return true
}

// expected returns the error for a value of the wrong type.
func (r *reader) expected(what string) error {
	if r.next(); r.pos == len(r.data) {
		return invalid("ends too early")
	}
	return invalid("must be " + what)
}

// object reads an object of up to limit members. member reads the value of one
// member; its name is valid only during the call.
func (r *reader) object(limit int, member func(name []byte) error) error {
	return r.members(limit, label, member)
}

// members reads an object like object. pathOf returns the path of a member in errors.
func (r *reader) members(limit int, pathOf func(name []byte) string, member func(name []byte) error) error {
	var few [8][]byte
	seen := few[:0]
	return r.sequence("{}", "an object", limit, func(int) error {
		if r.next() != '"' {
			return r.expected("an object with quoted member names")
		}
		name, err := r.bytes()
		if err != nil {
			return err
		}
		if !r.skip(':') {
			return invalid("lacks a colon after a member name")
		}
		for _, other := range seen {
			if bytes.Equal(name, other) {
				return inField(pathOf(name), invalid("occurs twice"))
			}
		}
		seen = append(seen, name)
		if err := member(name); err != nil {
			return inField(pathOf(name), err)
		}
		return nil
	})
}

// array reads a list of up to limit elements.
func (r *reader) array(limit int, element func() error) error {
	return r.sequence("[]", "a list", limit, func(i int) error {
		if err := element(); err != nil {
			return inField("["+strconv.Itoa(i)+"]", err)
		}
		return nil
	})
}

// sequence reads items between brackets, separated by commas.
func (r *reader) sequence(brackets, what string, limit int, item func(i int) error) error {
	if !r.skip(brackets[0]) {
		return r.expected(what)
	}
	if r.skip(brackets[1]) {
		return nil
	}
	for i := range limit {
		if err := item(i); err != nil {
			return err
		}
		if r.skip(brackets[1]) {
			return nil
		}
		if !r.skip(',') {
			return invalid("lacks a comma or a closing bracket")
		}
	}
	return invalid(fmt.Sprintf("contains more than %d entries", limit))
}

// text reads a string.
func (r *reader) text() (string, error) {
	value, err := r.bytes()
	if err == nil && len(value) > maxText {
		err = invalid(fmt.Sprintf("is longer than %d bytes", maxText))
	}
	return string(value), err
}

// bytes reads a string without copying it.
func (r *reader) bytes() ([]byte, error) {
	if !r.skip('"') {
		return nil, r.expected("a string")
	}
	start := r.pos
	// An escape is at least as long as its character, so writing never overtakes reading.
	for end := start; r.pos < len(r.data); {
		switch c := r.data[r.pos]; {
		case c == '"':
			r.pos++
			return r.data[start:end], nil
		case c == '\\':
			char, ok := r.escape()
			if !ok {
				return nil, invalid("contains an invalid escape")
			}
			end += utf8.EncodeRune(r.data[end:], char)
		case c < ' ':
			return nil, invalid("contains an unescaped control character")
		default:
			r.data[end] = c
			end++
			r.pos++
		}
	}
	return nil, invalid("ends too early")
}

// escape reads an escape sequence. Half a surrogate pair is invalid.
func (r *reader) escape() (rune, bool) {
	rest := r.data[r.pos:]
	if len(rest) < 2 {
		return 0, false
	}
	if i := strings.IndexByte(`"\/bfnrt`, rest[1]); i >= 0 {
		r.pos += 2
		return rune("\"\\/\b\f\n\r\t"[i]), true
	}
	char, ok := utf16Escape(rest)
	if !ok {
		return 0, false
	}
	r.pos += 6
	if !utf16.IsSurrogate(char) {
		return char, true
	}
	low, _ := utf16Escape(rest[6:])
	r.pos += 6
	char = utf16.DecodeRune(char, low)
	return char, char != utf8.RuneError
}

// utf16Escape reads the escape of one UTF-16 unit at the start of the text.
func utf16Escape(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}

// integer reads an integer from smallest, 0 or 1, to largest.
func (r *reader) integer(smallest, largest uint64) (int64, error) {
	digits := r.digits()
	n, err := strconv.ParseUint(string(digits), 10, 63)
	if err != nil || n < smallest || n > largest || digits[0] == '0' && len(digits) > 1 {
		return 0, invalid(fmt.Sprintf("must be an integer from %d to %d", smallest, largest))
	}
	return int64(n), nil
}

// jsonObject reads an object of any values, with objects and lists within each other up to depth.
func (r *reader) jsonObject(depth int) (map[string]any, error) {
	if depth == 0 {
		return nil, invalid("is nested too deeply")
	}
	values := map[string]any{}
	err := r.object(maxClaims, func(name []byte) (err error) {
		key := string(name)
		values[key], err = r.json(depth - 1)
		return err
	})
	return values, err
}

// json reads any value, as encoding/json decodes it.
func (r *reader) json(depth int) (value any, err error) {
	switch r.next() {
	case '"':
		return r.text()
	case '{':
		return r.jsonObject(depth)
	case '[':
		if depth == 0 {
			return nil, invalid("is nested too deeply")
		}
		var values []any
		err = r.array(maxClaims, func() error {
			value, err := r.json(depth - 1)
			values = append(values, value)
			return err
		})
		return values, err
	case 't', 'f':
		return r.boolean()
	case 'n':
		if !bytes.HasPrefix(r.data[r.pos:], []byte("null")) {
			return nil, r.expected("a value")
		}
		r.pos += len("null")
		return nil, nil //nolint:nilnil // null
	default:
		return r.number()
	}
}

// number reads any number (RFC 8259, section 6).
func (r *reader) number() (float64, error) {
	digits := r.digits()
	if n, err := strconv.ParseFloat(string(digits), 64); err == nil && json.Valid(digits) {
		return n, nil
	}
	return 0, r.expected("a value")
}

// digits consumes the characters of a number.
func (r *reader) digits() []byte {
	r.next()
	start := r.pos
	for r.pos < len(r.data) && strings.IndexByte("+-.0123456789eE", r.data[r.pos]) >= 0 {
		r.pos++
	}
	return r.data[start:r.pos]
}

// boolean reads true or false.
func (r *reader) boolean() (bool, error) {
	r.next()
	for _, word := range [...]string{"true", "false"} {
		if bytes.HasPrefix(r.data[r.pos:], []byte(word)) {
			r.pos += len(word)
			return word == "true", nil
		}
	}
	return false, r.expected("true or false")
}

// end returns an error unless only white space is left.
func (r *reader) end() error {
	if r.next(); r.pos < len(r.data) {
		return invalid("has data after its end")
	}
	return nil
}

// label returns the name of a member, cut to maxLabel characters.
func label(name []byte) string {
	if len(name) <= maxLabel {
		return string(name)
	}
	runes := []rune(string(name))
	return string(runes[:min(len(runes), maxLabel)])
}
