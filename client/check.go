// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net"
	"net/http"
	"strings"
)

// Check is a question to Weir. Policies or Attributes are required.
type Check struct {
	// Policies names a chain of 1 to 16 policies, as "namespace/name", which are decided as one.
	// Without it, every policy that matches Attributes applies.
	Policies []string `json:"policies,omitempty"`
	// Key is whose budget is charged, one string for each part, in place of the key that each
	// policy derives from Attributes. It needs Policies.
	Key []string `json:"key,omitempty"`
	// Attributes are the facts of the request.
	Attributes *Attributes `json:"attributes,omitempty"`
	// Cost is the number of units to spend; 0 is 1.
	Cost int `json:"cost,omitempty"`
	// Peek evaluates the check and spends nothing.
	Peek bool `json:"peek,omitempty"`
}

// Attributes are the facts of a request that policies match and derive keys from. Weir
// normalizes hosts, paths and addresses.
type Attributes struct {
	Method string `json:"method,omitempty"`
	Host   string `json:"host,omitempty"`
	// Path may have a query.
	Path string `json:"path,omitempty"`
	// Headers are the values of each header; names in any case.
	Headers map[string][]string `json:"headers,omitempty"`
	// RemoteAddress is the IP address of the client, without a port.
	RemoteAddress string `json:"remoteAddress,omitempty"`
	// Principal is the authenticated user.
	Principal string `json:"principal,omitempty"`
	// Claims are the claims of tokens that the caller has verified, by the name of the payload that policies use
	// and the name of the claim.
	Claims map[string]map[string]any `json:"claims,omitempty"`
	// Targets are the Gateway and the route of the Gateway API that the request came through, such as
	// "HTTPRoute/shop/checkout", perhaps with a section: "Gateway/infra/public/https".
	Targets []string `json:"targets,omitempty"`
	// Domain and Descriptors are defined by Envoy's rate limit protocol.
	Domain      string       `json:"domain,omitempty"`
	Descriptors []Descriptor `json:"descriptors,omitempty"`
}

// Descriptor is a descriptor of Envoy's rate limit protocol.
type Descriptor struct {
	Entries []Entry `json:"entries"`
}

// Entry is an entry of a Descriptor.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// maxPath is the longest path with a query that Weir accepts, in bytes.
const maxPath = 8 << 10

// unreadQuery is a query that Weir does not read, because it has too many parameters.
var unreadQuery = "?" + strings.Repeat("&", 128)

// Describe returns the attributes of a request that a server received: method, host, path with
// query, headers, and the address of the peer.
//
//   - Behind a proxy the peer is the proxy. Set RemoteAddress to the address that the proxy
//     vouches for, never to an X-Forwarded-For that the client may have written.
//   - Principal and Claims are empty. Set them after the user is authenticated.
//   - A query that is too long is replaced by another one that Weir does not read: every match by query
//     parameters holds.
func Describe(r *http.Request) *Attributes {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = "" // not from net/http's server
	}
	address, _, _ = strings.Cut(address, "%") // the zone of a link-local address
	path := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		if query := "?" + r.URL.RawQuery; len(path)+len(query) <= maxPath {
			path += query
		} else {
			path += unreadQuery
		}
	}
	return &Attributes{
		Method: r.Method, Host: r.Host, Path: path, Headers: r.Header, RemoteAddress: address,
	}
}
