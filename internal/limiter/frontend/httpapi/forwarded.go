// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/forwarded"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// readOriginal sets the attributes of the original request: those that a trusted proxy forwards,
// else the facts of the HTTP request itself. path is the path below pathAuthorize.
func (h *Handler) readOriginal(r *http.Request, path string, q *request) error {
	peer, a := peerOf(r), &q.check.Attributes
	a.Method, a.Host, a.Path = r.Method, r.Host, path
	if path != "" {
		a.Query = r.URL.RawQuery
	}
	a.RemoteAddress = h.proxies.Client(peer, r.Header[plan.HeaderFor])
	a.Headers = q.headers
	a.RepeatedHeaders = addHeaders(a.Headers, r.Header)
	if !h.proxies.Contains(peer) {
		a.Principal = principalOf(r.TLS)
		h.Ignored.Report(peer, r.Header, h.forwarding...)
		return nil
	}
	t, err := readForwardedTarget(r.Header)
	if err != nil {
		return err
	}
	a.Method, a.Host = cmp.Or(t.method, a.Method), cmp.Or(t.host, a.Host)
	if t.path != "" { // with its query
		a.Path, a.Query = t.path, ""
	}
	if h.Frontend.PrincipalHeader != "" {
		switch values := r.Header[h.Frontend.PrincipalHeader]; len(values) {
		case 0:
		case 1:
			a.Principal = strings.TrimSpace(values[0])
		default:
			a.PrincipalRepeated = true
		}
	}
	return nil
}

// addHeaders adds the headers by lower-case name and returns the names of repeated ones. Their
// values are joined with commas, as Envoy joins them, so that all frontends see the same value.
func addHeaders(headers map[string]string, from http.Header) (repeated []string) {
	const usualName = 16
	var names strings.Builder // one memory for all names
	names.Grow(usualName * len(from))
	for name, values := range from {
		if !plan.IsRequestHeader(name) {
			continue
		}
		start := names.Len()
		for i := range len(name) {
			names.WriteByte(lower(name[i]))
		}
		lowered := names.String()[start:]
		headers[lowered] = plan.TrimValue(strings.Join(values, ","))
		if len(values) > 1 {
			repeated = append(repeated, lowered)
		}
	}
	return repeated
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// principalOf returns the principal of the client certificate: its first URI, which holds a
// SPIFFE ID, else its first DNS name.
func principalOf(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	leaf := state.VerifiedChains[0][0]
	switch {
	case len(leaf.URIs) > 0:
		return leaf.URIs[0].String()
	case len(leaf.DNSNames) > 0:
		return leaf.DNSNames[0]
	}
	return ""
}

// forwardedTarget is the part of the original request that a proxy forwards; absent members
// are empty.
type forwardedTarget struct{ method, host, path string }

// readForwardedTarget reads the X-Forwarded-* and the X-Original-* headers. A proxy sets one
// family and may forward the other from its client unchanged. So neither takes precedence:
// if both are present they must agree, or the client could describe another request.
func readForwardedTarget(h http.Header) (forwardedTarget, error) {
	r := &headerReader{header: h}
	xForwarded, xOriginal := r.xForwarded(), r.xOriginal()
	// nginx has no X-Original header for the host, so either family may provide it.
	host := r.agreed(plan.HeaderHost, xForwarded.host, xOriginal.host)
	if r.err != nil {
		return forwardedTarget{}, r.err
	}
	xForwarded.host, xOriginal.host = host, host
	// A family that sets nothing but the host is absent: use the other one.
	if !xOriginal.hasMethodOrPath() {
		return xForwarded, nil
	}
	if !xForwarded.hasMethodOrPath() {
		return xOriginal, nil
	}
	if xForwarded.method != xOriginal.method {
		r.fail(plan.HeaderMethod, differs)
	}
	if xForwarded.path != xOriginal.path {
		r.fail(plan.HeaderURI, differs)
	}
	return xForwarded, r.err
}

func (t forwardedTarget) hasMethodOrPath() bool { return t.method != "" || t.path != "" }

// headerReader reads headers, whose names are canonical. An absent one is empty.
type headerReader struct {
	header http.Header
	err    error // the first, a *limiter.FieldError
}

func (r *headerReader) fail(name, problem string) {
	if r.err == nil {
		r.err = &limiter.FieldError{Field: name, Problem: problem}
	}
}

func (r *headerReader) xForwarded() (t forwardedTarget) {
	t.method, t.host = r.word(plan.HeaderMethod), plan.NormalizeHost(r.word(plan.HeaderHost))
	_, t.path = r.uri(plan.HeaderURI)
	return t
}

func (r *headerReader) xOriginal() (t forwardedTarget) {
	t.method = r.word(plan.HeaderOriginalMethod)
	_, path := r.uri(plan.HeaderOriginalURI)
	host, pathOfURL := r.uri(plan.HeaderOriginalURL)
	t.host, t.path = plan.NormalizeHost(host), r.agreed(plan.HeaderOriginalURL, pathOfURL, path)
	return t
}

const differs = "differs from another header"

// agreed returns the value that is not empty. Two different values are an error.
func (r *headerReader) agreed(name, a, b string) string {
	if a != "" && b != "" && a != b {
		r.fail(name, differs)
	}
	return cmp.Or(a, b)
}

// value returns the value of the header. A repeated header is an error.
func (r *headerReader) value(name string) string {
	switch values := r.header[name]; len(values) {
	case 0:
		return ""
	case 1:
		return strings.TrimSpace(values[0])
	default:
		r.fail(name, "occurs twice")
		return ""
	}
}

// word is value for a header that cannot be a list.
func (r *headerReader) word(name string) string {
	value := r.value(name)
	if strings.ContainsAny(value, ", \t") {
		r.fail(name, "must be one value")
	}
	return value
}

// uri returns the host of the URI, if it has one, and its path with the query. "*" has neither.
func (r *headerReader) uri(name string) (host, path string) {
	uri := r.value(name)
	if uri == "" || uri == "*" {
		return "", ""
	}
	if uri[0] == '/' {
		return "", uri
	}
	scheme, rest, absolute := strings.Cut(uri, "://")
	if !absolute || strings.ContainsAny(scheme, "/?#") {
		r.fail(name, "must be a URI or start with a slash")
		return "", ""
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host, path = rest[:i], rest[i:]
	} else {
		host = rest
	}
	return host, "/" + strings.TrimPrefix(path, "/")
}

// peerOf returns the address of the peer, or the zero address if it is unknown.
func peerOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return forwarded.CanonicalAddr(peer.Addr())
}
