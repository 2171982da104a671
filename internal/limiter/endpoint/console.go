// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"net"

	"github.com/weir-dev/weir/internal/limiter/console"
	"github.com/weir-dev/weir/internal/limiter/httpapi"
)

// addConsole adds the console to the options of the operator port, if there is to be one.
func (e *Endpoint) addConsole(options *httpapi.Options, onLoopback bool) {
	guests := e.options.ConsoleGuests && options.Authorizer == nil && onLoopback
	if e.options.Console && (options.Authorizer != nil || guests) {
		options.Console = console.New(console.Options{API: *options, Guests: guests})
	}
}

// announceConsole reports the address of the console once the operator port is bound.
func (e *Endpoint) announceConsole(scheme string) func(net.Listener) net.Listener {
	return func(bound net.Listener) net.Listener {
		url := scheme + "://" + bound.Addr().String() + console.Path
		e.options.Logger.Info("Serving the console", "url", url)
		if e.options.OnConsole != nil {
			e.options.OnConsole(url)
		}
		return bound
	}
}
