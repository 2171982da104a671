// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	urlpath "path"
	"strings"
	"unicode"
)

// Attributes are the facts of one request that plans match on and derive keys from. Absent
// facts are empty. Plans are compared with normalized attributes, see Normalize.
type Attributes struct {
	// Targets are the Gateway and the route that the request came through.
	Targets []Target
	Method  string
	Host    string
	Path    string
	// Query is the query of the request without the question mark. Normalize moves the query of Path to it.
	Query   string
	Headers map[string]string // by lower-case name; every frontend ensures that
	// RepeatedHeaders are the names of headers that the request has more than once. Headers holds
	// their values joined with commas.
	RepeatedHeaders []string
	RemoteAddress   netip.Addr
	Principal       string
	// PrincipalRepeated is true if the request has several principals; Principal is then empty.
	PrincipalRepeated bool
	Domain            string       // the rate limit domain, not normalized
	Descriptors       []Descriptor // not normalized
	// Claims are the claims of verified tokens, by the name of the payload and the name of the claim, see ClaimsOf.
	Claims map[string]map[string]string

	parsed *parsed // nil until a value is read
}

// DescriptorsOf returns the descriptors that a plan reads if it applies through the given
// one: only that one, or all with AllDescriptors.
func (a *Attributes) DescriptorsOf(descriptor int) []Descriptor {
	if descriptor == AllDescriptors {
		return a.Descriptors
	}
	return a.Descriptors[descriptor : descriptor+1]
}

// ValueOf returns the value of the first entry with the key, or "".
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

// Normalize rewrites the attributes so that different spellings of one request are equal:
// otherwise a caller could choose a spelling that no policy matches.
func (a *Attributes) Normalize() {
	a.Method = strings.ToUpper(a.Method)
	a.Host = NormalizeHost(a.Host)
	a.cutQuery()
	a.parsed = nil
	if a.Path != "" {
		a.Path = NormalizePath(a.Path)
	}
	a.RemoteAddress = normalizeAddress(a.RemoteAddress)
}

// NormalizeHost returns the host in lower case, without port and without the trailing dot of
// a fully qualified name. An address is returned in its canonical form. Repeated ports and
// trailing dots, which are invalid, are removed as well, so that they cannot bypass a match.
func NormalizeHost(host string) string {
	host = strings.ToLower(strings.TrimSpace(host))
	literal := host
	if strings.HasPrefix(host, "[") { // [IPv6] or [IPv6]:port
		literal, _, _ = strings.Cut(host[1:], "]")
	}
	if mayBeAddress(literal) {
		if address, err := netip.ParseAddr(literal); err == nil {
			return normalizeAddress(address).String()
		}
	}
	host, _, _ = strings.Cut(host, ":")
	return strings.TrimRightFunc(host, func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
}

// mayBeAddress reports whether the host may be an IP address. Almost no host is one, and parsing
// the others would allocate an error for each.
func mayBeAddress(host string) bool {
	return host != "" && (host[0] >= '0' && host[0] <= '9' || strings.Count(host, ":") >= 2)
}

// normalizeAddress returns the address without zone, and an IPv4-mapped one as IPv4.
func normalizeAddress(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }

// TrimValue returns the value of a header without the spaces and tabs around it. HTTP/2 has none (RFC 9113, section
// 8.2.1), but proxies forward a client's, which servers then remove: they must not make another key.
func TrimValue(value string) string { return strings.Trim(value, " \t") }

// NormalizePath returns the path in its canonical form:
//
//   - It has no query, fragment, dot segments or empty segments.
//   - It starts with a slash; a trailing slash is kept.
//   - A character that is allowed in a path (RFC 3986 section 3.3) is not escaped; every
//     other one is, with upper-case digits. An escaped slash stays escaped, since it does
//     not separate segments.
//
// NormalizePath is idempotent.
func NormalizePath(path string) string {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	path = canonicalEscapes(path)
	if isClean(path) {
		return path
	}
	clean := urlpath.Clean("/" + path)
	if last := path[strings.LastIndexByte(path, '/')+1:]; clean != "/" && (last == "" || last == "." || last == "..") {
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

// canonicalEscapes escapes only the characters that must be escaped.
func canonicalEscapes(path string) string {
	if needsNoEscapes(path) {
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

// needsNoEscapes reports whether the path consists of characters that a path may contain
// unescaped.
func needsNoEscapes(path string) bool {
	for i := range len(path) {
		if !isPathChar(path[i]) { // false for the percent sign, too
			return false
		}
	}
	return true
}

// isPathChar reports whether a path may contain the character unescaped.
func isPathChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-._~!$&'()*+,;=:@/", c) >= 0
}
