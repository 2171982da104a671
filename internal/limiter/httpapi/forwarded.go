// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"crypto/tls"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The headers by which proxies tell of the request they ask about: Traefik and
// Caddy by X-Forwarded-*, nginx by X-Original-*.
const (
	headerForwardedMethod = "X-Forwarded-Method"
	headerForwardedURI    = "X-Forwarded-Uri"
	headerForwardedHost   = "X-Forwarded-Host"
	headerOriginalMethod  = "X-Original-Method"
	headerOriginalURI     = "X-Original-Uri"
	headerOriginalURL     = "X-Original-Url" // the ingress controller of nginx
)

// notAttributes are the headers that are no facts of the request asked about:
// the ones above, and those of the connection.
var notAttributes = []string{
	headerForwardedMethod, headerForwardedURI, headerForwardedHost, headerForwardedFor,
	headerOriginalMethod, headerOriginalURI, headerOriginalURL,
	headerConnection, "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// forwardedFacts returns the facts of the request that is asked about: those a
// trusted proxy tells, else those of the asking request.
func (h *handler) forwardedFacts(r *http.Request) (plan.Attributes, error) {
	peer := peerOf(r)
	a := plan.Attributes{
		Method:        r.Method,
		Host:          r.Host,
		Path:          strings.TrimPrefix(r.URL.EscapedPath(), pathAuthorize),
		Headers:       attributeHeaders(r.Header),
		RemoteAddress: h.proxies.client(peer, r.Header.Values(headerForwardedFor)),
	}
	if !h.proxies.cover(peer) {
		a.Principal = principalOf(r.TLS)
		return a, nil
	}
	t, err := readTold(r.Header)
	if err != nil {
		return a, err
	}
	a.Method, a.Host, a.Path = cmp.Or(t.method, a.Method), cmp.Or(t.host, a.Host), cmp.Or(t.path, a.Path)
	if h.PrincipalHeader != "" {
		a.Principal, err = readValue(r.Header, http.CanonicalHeaderKey(h.PrincipalHeader))
	}
	return a, err
}

// attributeHeaders returns the headers by lower-case name. Values of one name
// are joined as Envoy joins them, so that its doors see the same.
func attributeHeaders(header http.Header) map[string]string {
	headers := make(map[string]string, len(header))
	for name, values := range header {
		if !slices.Contains(notAttributes, name) {
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
type told struct{ method, host, path string }

// readTold reads both families of headers. A proxy sends one and lets pass what
// its client sends of the other, so neither can come first: where both are there
// they must say the same, or else a client could tell Weir another story than its
// request.
func readTold(h http.Header) (told, error) {
	forwarded, err := readForwarded(h)
	if err != nil {
		return told{}, err
	}
	original, err := readOriginal(h)
	if err != nil {
		return told{}, err
	}
	// nginx has no header of its own for the host, so that may come from either.
	host, err := agreed(headerForwardedHost, forwarded.host, original.host)
	if err != nil {
		return told{}, err
	}
	forwarded.host, original.host = host, host
	switch (told{host: host}) {
	case original:
		return forwarded, nil
	case forwarded:
		return original, nil
	}
	if forwarded.method != original.method {
		return told{}, differs(headerForwardedMethod)
	}
	if forwarded.path != original.path {
		return told{}, differs(headerForwardedURI)
	}
	return forwarded, nil
}

func readForwarded(h http.Header) (t told, err error) {
	if t.method, err = readWord(h, headerForwardedMethod); err != nil {
		return t, err
	}
	if t.host, err = readWord(h, headerForwardedHost); err != nil {
		return t, err
	}
	t.host = plan.NormalizeHost(t.host)
	_, t.path, err = readURI(h, headerForwardedURI)
	return t, err
}

func readOriginal(h http.Header) (t told, err error) {
	if t.method, err = readWord(h, headerOriginalMethod); err != nil {
		return t, err
	}
	_, path, err := readURI(h, headerOriginalURI)
	if err != nil {
		return t, err
	}
	host, pathOfURL, err := readURI(h, headerOriginalURL)
	if err != nil {
		return t, err
	}
	t.host = plan.NormalizeHost(host)
	t.path, err = agreed(headerOriginalURL, pathOfURL, path)
	return t, err
}

// agreed returns what one of the two says; if both do, it must be the same.
func agreed(name, a, b string) (string, error) {
	if a != "" && b != "" && a != b {
		return "", differs(name)
	}
	return cmp.Or(a, b), nil
}

func differs(name string) error {
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
