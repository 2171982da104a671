// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"net"

	"github.com/weir-dev/weir/internal/limiter/frontend/console"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
)

// addConsole adds the console to the options of the operator port, if there is to be one.
func (e *Server) addConsole(options *httpapi.Options, onLoopback bool) {
	guests := e.options.ConsoleGuests && options.Authorizer == nil && onLoopback
	if e.options.Console && (options.Authorizer != nil || guests) {
		options.Console = console.New(console.Options{API: *options, Guests: guests, CheckURL: e.checkURL})
	}
}

// checkURL returns the base URL of the HTTP API for a caller on this machine, "" before it is bound.
func (e *Server) checkURL() string {
	host, port, err := net.SplitHostPort(e.HTTP.Addr())
	if err != nil {
		return ""
	}
	if address := net.ParseIP(host); address != nil && address.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http"
	if e.options.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// announceConsole reports the address of the console once the operator port is bound.
func (e *Server) announceConsole(scheme string) func(net.Listener) net.Listener {
	return func(bound net.Listener) net.Listener {
		url := scheme + "://" + bound.Addr().String() + console.Path
		e.options.Logger.Info("Serving the console", "url", url)
		if e.options.OnConsole != nil {
			e.options.OnConsole(url)
		}
		return bound
	}
}
