// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// operatorPaths are the paths that the operator port serves.
var operatorPaths = []string{
	pathState, pathReset, pathBlock, pathUnblock, pathExplain, pathBlocks, pathTop, pathRates, pathKeys, pathProbes, pathTargets, pathPolicies, pathPlan, pathHealth, pathReady,
}

// NewOperator returns the handler of the operator port at the address, as in "127.0.0.1:8083". It
// serves operatorPaths, and alone GET /v1/process and the console. It rejects a Host header that is neither a
// loopback name or address nor the address of the port. Otherwise a web page could reach a port on
// loopback from the browser of an operator, with a name of its own that resolves to 127.0.0.1
// (DNS rebinding).
func NewOperator(o Options, address string) *Handler {
	h := New(o)
	h.isOperator = true
	maps.DeleteFunc(h.routes, func(path string, _ route) bool { return !slices.Contains(operatorPaths, path) })
	if h.Process != nil {
		h.routes[pathProcess] = route{methods: []string{http.MethodGet}, serve: h.process}
	}
	if h.Console != nil {
		h.serveConsole()
	}
	configured := hostWithoutPort(address)
	h.acceptsHost = func(r *http.Request) bool {
		host := hostWithoutPort(r.Host)
		return IsLoopback(host) || host != "" && (host == configured || host == localHost(r))
	}
	return h
}

// IsLoopback reports whether the host, without a port, is a loopback address or "localhost" or a
// name below it, which never leaves the machine (RFC 6761).
func IsLoopback(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// localHost returns the address at which the connection of the request arrived. It never equals a
// name, so DNS rebinding cannot use it.
func localHost(r *http.Request) string {
	address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return ""
	}
	return hostWithoutPort(address.String())
}

// hostWithoutPort returns the host in lower case, without port and brackets, and an IP address
// in its usual form.
func hostWithoutPort(text string) string {
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String()
	}
	return strings.ToLower(host)
}

// ProcessFunc returns the facts. It writes to Redis, and is called once at a time.
type ProcessFunc func(ctx context.Context) *httptypes.Process

// process serves GET /v1/process.
func (h *Handler) process(w http.ResponseWriter, r *http.Request) {
	if !h.describing.TryLock() {
		h.writeStateError(w, r, busy("Another request for the state of this process is running."))
		return
	}
	defer h.describing.Unlock()
	writeJSON(w, http.StatusOK, answer.TypeJSON, h.Process(r.Context()))
}
