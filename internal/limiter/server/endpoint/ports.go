// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/weir-dev/weir/internal/limiter/server/listen"
)

// Bind binds the ports, so that a taken one is an error before anything else starts. The error
// has the flag and the address.
func (e *Server) Bind(ctx context.Context) error {
	if operator := e.operatorPort(); e.options.OperatorOptional && operator.Address != "" && !e.withoutOperator {
		if err := operator.Bind(ctx); errors.Is(err, syscall.EADDRINUSE) {
			e.withoutOperator = true
			e.options.Logger.Warn("Serving no operator port: another process has its default address; choose another one with --operator-address",
				"error", err)
		}
	}
	return listen.Bind(ctx, e.ports()...)
}

// ports returns the ports that are on.
func (e *Server) ports() []listen.Port {
	o := &e.options
	ports := []listen.Port{
		{Flag: "--http-address", Address: o.HTTPAddress, Server: e.HTTP},
		{Flag: "--grpc-address", Address: o.GRPCAddress, Server: e.GRPC},
		{Flag: "--metrics-address", Address: o.MetricsAddress, Server: e.Metrics},
	}
	if !e.withoutOperator {
		ports = append(ports, e.operatorPort())
	}
	return slices.DeleteFunc(ports, func(p listen.Port) bool { return p.Address == "" })
}

func (e *Server) operatorPort() listen.Port {
	return listen.Port{Flag: "--operator-address", Address: e.options.OperatorAddress, Server: e.Operator}
}
