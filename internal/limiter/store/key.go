// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxValueBytes is the length of the longest key value that is stored unhashed.
const MaxValueBytes = 255

// Key is the encoded key of one caller, the content of the hash tag.
type Key string

const (
	missingPart   = "-" // no escaped value equals this
	partSeparator = '|'
	hashMark      = '#'
	escapeMark    = '%'
)

// EncodeKey encodes the parts of a key. An empty part is a missing part.
//
//   - No parts and one missing part both are the shared budget, Key("-").
//   - Otherwise the encoding is injective, for any bytes: different lists of parts
//     have different keys.
//   - A value over MaxValueBytes is replaced by the first 128 bits of its SHA-256.
func EncodeKey(parts ...string) Key {
	if len(parts) == 1 && isPlain(parts[0]) {
		return Key(parts[0])
	}
	if len(parts) == 0 {
		return missingPart
	}
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(partSeparator)
		}
		encodePart(&b, part)
	}
	return Key(b.String())
}

// Parts decodes the key: a missing part is empty, and a value over MaxValueBytes is "#" and its
// hash.
func (k Key) Parts() []string {
	if k == missingPart {
		return nil
	}
	parts := strings.Split(string(k), string(partSeparator))
	for i, part := range parts {
		parts[i] = decodePart(part)
	}
	return parts
}

func decodePart(part string) string {
	if part == missingPart {
		return ""
	}
	if strings.IndexByte(part, escapeMark) < 0 {
		return part
	}
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] == escapeMark && i+2 < len(part) {
			if value, err := strconv.ParseUint(part[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(value))
				i += 2
				continue
			}
		}
		b.WriteByte(part[i])
	}
	return b.String()
}

// Hash returns the hash that stands for the key in logs and in calls on its state. It is the same on
// every replica.
func (k Key) Hash() string {
	sum := sha256.Sum256([]byte(k))
	return hex.EncodeToString(sum[:8])
}

func encodePart(b *strings.Builder, part string) {
	switch {
	case part == "":
		b.WriteString(missingPart)
	case part == missingPart:
		escape(b, part)
	case len(part) > MaxValueBytes:
		sum := sha256.Sum256([]byte(part))
		b.WriteByte(hashMark)
		b.WriteString(hex.EncodeToString(sum[:16]))
	case isPlain(part):
		b.WriteString(part)
	default:
		for i := 0; i < len(part); {
			r, size := utf8.DecodeRuneInString(part[i:])
			if mustEscape(r, size) {
				escape(b, part[i:i+size])
			} else {
				b.WriteString(part[i : i+size])
			}
			i += size
		}
	}
}

// isPlain reports whether a part encodes as itself.
func isPlain(part string) bool {
	if part == "" || part == missingPart || len(part) > MaxValueBytes {
		return false
	}
	for i := range len(part) {
		c := part[i]
		if c >= utf8.RuneSelf || mustEscape(rune(c), 1) {
			return false
		}
	}
	return true
}

func mustEscape(r rune, size int) bool {
	switch r {
	case '{', '}', ':', ' ', partSeparator, hashMark, escapeMark:
		return true
	case utf8.RuneError:
		return size == 1 // a byte that is not UTF-8
	}
	return unicode.IsControl(r)
}

func escape(b *strings.Builder, bytes string) {
	const digits = "0123456789ABCDEF"
	for i := range len(bytes) {
		b.WriteByte(escapeMark)
		b.WriteByte(digits[bytes[i]>>4])
		b.WriteByte(digits[bytes[i]&15])
	}
}

// OverflowKey returns the overflow key of the policy with that number, see Call.OverflowKey.
func (p *Policy) OverflowKey(number int) Key { return overflowKey(p.settings.ID, number) }

// IsOverflowKey reports whether the key is an overflow key of the policy.
func (p *Policy) IsOverflowKey(key Key) bool {
	if !strings.HasPrefix(string(key), string(hashMark)) { // nearly every key
		return false
	}
	number, err := strconv.Atoi(string(key[strings.LastIndexByte(string(key), hashMark)+1:]))
	return err == nil && number >= 0 && key == p.OverflowKey(number)
}

// overflowKey returns the key that the new keys of the policy share during a flood. No value
// encodes to it: a hash has no slash. Two entries of one call must not share it, so the entries of a
// policy are numbered.
func overflowKey(policy string, number int) Key {
	return Key(string(hashMark) + policy + string(hashMark) + strconv.Itoa(number))
}
