// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package forwarded

import "slices"

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

// proxyHeaders do not belong to the original request: the headers above and hop-by-hop
// headers (RFC 9110, section 7.6.1).
var proxyHeaders = []string{
	HeaderMethod, HeaderURI, HeaderHost, HeaderFor,
	HeaderOriginalMethod, HeaderOriginalURI, HeaderOriginalURL,
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// IsRequestHeader reports whether the header, given by its canonical name, belongs to the
// original request, so that policies may use it.
func IsRequestHeader(name string) bool { return !slices.Contains(proxyHeaders, name) }
