// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"strings"
	"unicode"
)

// Attributes are the facts of one request that plans match on and take keys
// from. Absent facts are empty. Normalize brings what a caller sent into the
// one form that plans are compared with.
type Attributes struct {
	Method        string
	Host          string
	Path          string
	Headers       map[string]string // by lower-case name; the doors see to that
	RemoteAddress netip.Addr
	Principal     string
	Domain        string       // the rate limit domain, compared as it is
	Descriptors   []Descriptor // compared as they are
}

// DescriptorsOf returns the descriptors that a plan reads that applies by that
// one: just it, or with AnyDescriptor all.
func (a *Attributes) DescriptorsOf(descriptor int) []Descriptor {
	if descriptor == AnyDescriptor {
		return a.Descriptors
	}
	return a.Descriptors[descriptor : descriptor+1]
}

// ValueOf returns the value of the first entry with that key; empty if there is
// none.
func ValueOf(descriptors []Descriptor, key string) string {
	for _, d := range descriptors {
		for _, e := range d {
			if e.Key == key {
				return e.Value
			}
		}
	}
	return ""
}

// Normalize rewrites the attributes so that different spellings of one
// request compare equal: otherwise a caller could choose the spelling that no
// policy matches.
func (a *Attributes) Normalize() {
	a.Method = strings.ToUpper(a.Method)
	a.Host = NormalizeHost(a.Host)
	if a.Path != "" {
		a.Path = NormalizePath(a.Path)
	}
	a.RemoteAddress = normalAddress(a.RemoteAddress)
}

// NormalizeHost returns the host in lower case without port and without the
// dot of a fully qualified name; an address in its one form. More than one port or
// dot is nothing a host may have, and no way to be another one.
func NormalizeHost(host string) string {
	host = strings.ToLower(strings.TrimSpace(host))
	literal := host
	if strings.HasPrefix(host, "[") { // [IPv6] or [IPv6]:port
		literal, _, _ = strings.Cut(host[1:], "]")
	}
	if address, err := netip.ParseAddr(literal); err == nil {
		return normalAddress(address).String()
	}
	host, _, _ = strings.Cut(host, ":")
	return strings.TrimRightFunc(host, func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
}

// normalAddress is the address without what says nothing of whose it is.
func normalAddress(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }

// NormalizePath returns the path without query and fragment, with every
// character in its one form, and with dot segments and empty segments
// resolved. A character that may stand in a path as it is (RFC 3986 section
// 3.3) is not escaped, every other one is, with upper-case digits; an escaped
// slash stays escaped, since it separates nothing. The result starts with a
// slash; a trailing slash is kept. To normalise again changes nothing.
func NormalizePath(path string) string {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	path = canonicalEscapes(path)
	if isClean(path) {
		return path
	}
	segments := strings.Split(path, "/")
	kept := make([]string, 0, len(segments))
	for _, s := range segments {
		switch s {
		case "", ".":
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		default:
			kept = append(kept, s)
		}
	}
	clean := "/" + strings.Join(kept, "/")
	if last := segments[len(segments)-1]; len(kept) > 0 && (last == "" || last == "." || last == "..") {
		clean += "/"
	}
	return clean
}

// isClean reports whether no segment of the path needs resolving.
func isClean(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	return !strings.Contains(path, "//") && !strings.Contains(path, "/.")
}

// canonicalEscapes escapes what must be and nothing else.
func canonicalEscapes(path string) string {
	if isCanonical(path) {
		return path
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c, escaped := path[i], false
		if c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]) {
			c, escaped = unhex(path[i+1])<<4|unhex(path[i+2]), true
			i += 2
		}
		if isPathChar(c) && (c != '/' || !escaped) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	if c >= 'A' {
		return c - 'A' + 10
	}
	return c - '0'
}

// isCanonical reports whether nothing is escaped and nothing needs to be.
func isCanonical(path string) bool {
	for i := range len(path) {
		if !isPathChar(path[i]) { // neither is the percent sign
			return false
		}
	}
	return true
}

// isPathChar reports whether the character may stand unescaped in a path.
func isPathChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-._~!$&'()*+,;=:@/", c) >= 0
}
