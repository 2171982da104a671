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
	"github.com/weir-dev/weir/internal/limiter/forwarded"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// forwardedFacts returns the facts of the request that is asked about: those a
// trusted proxy tells, else those of the asking request.
func (h *Handler) forwardedFacts(r *http.Request) (plan.Attributes, error) {
	peer := peerOf(r)
	a := plan.Attributes{
		Method:        r.Method,
		Host:          r.Host,
		Path:          strings.TrimPrefix(r.URL.EscapedPath(), pathAuthorize),
		Headers:       attributeHeaders(r.Header),
		RemoteAddress: h.proxies.Client(peer, r.Header.Values(forwarded.HeaderFor)),
	}
	if !h.proxies.Contains(peer) {
		a.Principal = principalOf(r.TLS)
		return a, nil
	}
	t, err := readForwardedTarget(r.Header)
	if err != nil {
		return a, err
	}
	a.Method, a.Host, a.Path = cmp.Or(t.method, a.Method), cmp.Or(t.host, a.Host), cmp.Or(t.path, a.Path)
	if h.Door.PrincipalHeader != "" {
		a.Principal, err = readValue(r.Header, http.CanonicalHeaderKey(h.Door.PrincipalHeader))
	}
	return a, err
}

// attributeHeaders returns the headers by lower-case name. Values of one name
// are joined as Envoy joins them, so that its doors see the same.
func attributeHeaders(header http.Header) map[string]string {
	headers := make(map[string]string, len(header))
	for name, values := range header {
		if forwarded.IsRequestHeader(name) {
			headers[strings.ToLower(name)] = strings.Join(values, ",")
		}
	}
	return headers
}

// principalOf returns what the client's certificate says it is: its first URI,
// which is where SPIFFE ids are, else its first DNS name.
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

// told is what a proxy tells of a request; what it does not tell is empty.
type forwardedTarget struct{ method, host, path string }

// readForwardedTarget reads both families of headers. A proxy sends one and lets pass what
// its client sends of the other, so neither can come first: where both are there
// they must say the same, or else a client could tell Weir another story than its
// request.
func readForwardedTarget(h http.Header) (forwardedTarget, error) {
	one, err := readXForwarded(h)
	if err != nil {
		return forwardedTarget{}, err
	}
	other, err := readXOriginal(h)
	if err != nil {
		return forwardedTarget{}, err
	}
	// nginx has no header of its own for the host, so that may come from either.
	host, err := agreed(forwarded.HeaderHost, one.host, other.host)
	if err != nil {
		return forwardedTarget{}, err
	}
	one.host, other.host = host, host
	switch (forwardedTarget{host: host}) {
	case other:
		return one, nil
	case one:
		return other, nil
	}
	if one.method != other.method {
		return forwardedTarget{}, errDiffers(forwarded.HeaderMethod)
	}
	if one.path != other.path {
		return forwardedTarget{}, errDiffers(forwarded.HeaderURI)
	}
	return one, nil
}

func readXForwarded(h http.Header) (t forwardedTarget, err error) {
	if t.method, err = readWord(h, forwarded.HeaderMethod); err != nil {
		return t, err
	}
	if t.host, err = readWord(h, forwarded.HeaderHost); err != nil {
		return t, err
	}
	t.host = plan.NormalizeHost(t.host)
	_, t.path, err = readURI(h, forwarded.HeaderURI)
	return t, err
}

func readXOriginal(h http.Header) (t forwardedTarget, err error) {
	if t.method, err = readWord(h, forwarded.HeaderOriginalMethod); err != nil {
		return t, err
	}
	_, path, err := readURI(h, forwarded.HeaderOriginalURI)
	if err != nil {
		return t, err
	}
	host, pathOfURL, err := readURI(h, forwarded.HeaderOriginalURL)
	if err != nil {
		return t, err
	}
	t.host = plan.NormalizeHost(host)
	t.path, err = agreed(forwarded.HeaderOriginalURL, pathOfURL, path)
	return t, err
}

// agreed returns what one of the two says; if both do, it must be the same.
func agreed(name, a, b string) (string, error) {
	if a != "" && b != "" && a != b {
		return "", errDiffers(name)
	}
	return cmp.Or(a, b), nil
}

func errDiffers(name string) error {
	return &limiter.FieldError{Field: name, Problem: "differs from what another header says"}
}

// readValue returns the one value of the header, empty where there is none.
// Which of two counted would be chance.
func readValue(h http.Header, name string) (string, error) {
	switch values := h.Values(name); len(values) {
	case 0:
		return "", nil
	case 1:
		return strings.TrimSpace(values[0]), nil
	default:
		return "", &limiter.FieldError{Field: name, Problem: "is given twice"}
	}
}

// readWord is readValue for what cannot be a list.
func readWord(h http.Header, name string) (string, error) {
	value, err := readValue(h, name)
	if err == nil && strings.ContainsAny(value, ", \t") {
		err = &limiter.FieldError{Field: name, Problem: "must be one value"}
	}
	return value, err
}

// readURI returns the path of the URI, query included, and its host if it has
// one. "*" has neither.
func readURI(h http.Header, name string) (host, path string, err error) {
	uri, err := readValue(h, name)
	if err != nil || uri == "" || uri == "*" {
		return "", "", err
	}
	if uri[0] == '/' {
		return "", uri, nil
	}
	scheme, rest, absolute := strings.Cut(uri, "://")
	if !absolute || strings.ContainsAny(scheme, "/?#") {
		return "", "", &limiter.FieldError{Field: name, Problem: "must be a URI or start with a slash"}
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host, path = rest[:i], rest[i:]
	} else {
		host = rest
	}
	return host, "/" + strings.TrimPrefix(path, "/"), nil
}

// peerOf returns the address that the request came from; the zero one when it
// is not known.
func peerOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return forwarded.CanonicalAddr(peer.Addr())
}
