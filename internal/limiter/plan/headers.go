// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// The headers in which proxies describe the original request: Traefik and Caddy use
// X-Forwarded-*, nginx uses X-Original-*.
const (
	HeaderFor            = "X-Forwarded-For"
	HeaderMethod         = "X-Forwarded-Method"
	HeaderURI            = "X-Forwarded-Uri"
	HeaderHost           = "X-Forwarded-Host"
	HeaderOriginalMethod = "X-Original-Method"
	HeaderOriginalURI    = "X-Original-Uri"
	HeaderOriginalURL    = "X-Original-Url" // ingress-nginx
)

// HeaderProbe has the code of a probe, see package probe of the frontends.
const HeaderProbe = "X-Weir-Probe"

// VariableFor returns the variable of expressions with the fact that policies must not read from the
// header, given by its canonical name: proxies describe the request in it, or it is Host. It is
// empty for other headers.
func VariableFor(name string) string {
	switch name {
	case HeaderFor:
		return "remoteAddress"
	case "Host", HeaderHost:
		return "request.host"
	case HeaderMethod, HeaderOriginalMethod:
		return "request.method"
	case HeaderURI, HeaderOriginalURI, HeaderOriginalURL:
		return "request.path"
	}
	return ""
}

// IsRequestHeader reports whether the header, given by its canonical name, belongs to the
// original request, so that policies may use it. The headers above and hop-by-hop headers
// (RFC 9110, section 7.6.1) do not.
func IsRequestHeader(name string) bool {
	switch name {
	case HeaderMethod, HeaderURI, HeaderHost, HeaderFor,
		HeaderOriginalMethod, HeaderOriginalURI, HeaderOriginalURL, HeaderProbe,
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return false
	}
	return true
}
