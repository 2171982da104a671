// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package forwarded

import "slices"

// The headers by which proxies tell of the request they ask about: Traefik and
// Caddy by X-Forwarded-*, nginx by X-Original-*.
const (
	HeaderFor            = "X-Forwarded-For"
	HeaderMethod         = "X-Forwarded-Method"
	HeaderURI            = "X-Forwarded-Uri"
	HeaderHost           = "X-Forwarded-Host"
	HeaderOriginalMethod = "X-Original-Method"
	HeaderOriginalURI    = "X-Original-Uri"
	HeaderOriginalURL    = "X-Original-Url" // the ingress controller of nginx
)

// proxyHeaders are the headers that are no facts of the request asked about: the ones
// above, and those of the connection.
var proxyHeaders = []string{
	HeaderMethod, HeaderURI, HeaderHost, HeaderFor,
	HeaderOriginalMethod, HeaderOriginalURI, HeaderOriginalURL,
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// IsRequestHeader reports whether the header, by its canonical name, is a fact of the
// request that a proxy asks about, for policies to look at.
func IsRequestHeader(name string) bool { return !slices.Contains(proxyHeaders, name) }
