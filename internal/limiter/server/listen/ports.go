// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
)

// Port is a port of the process.
type Port struct {
	// Flag is the flag that sets Address, as in "--http-address".
	Flag    string
	Address string
	Server  interface {
		// Bind binds Address.
		Bind(ctx context.Context) error
		// Close releases Address, unless Start runs.
		Close() error
		// Start serves until ctx ends, then drains.
		Start(ctx context.Context) error
	}
}

// Bind binds the ports. If one fails, it releases the others and returns an error with the flag
// and the address.
func Bind(ctx context.Context, ports ...Port) error {
	for i, p := range ports {
		if err := p.Bind(ctx); err != nil {
			for _, bound := range slices.Backward(ports[:i]) {
				err = errors.Join(err, bound.Server.Close())
			}
			return err
		}
	}
	return nil
}

// Bind binds the port. Its error has the flag and the address.
func (p Port) Bind(ctx context.Context) error {
	err := p.Server.Bind(ctx)
	if err == nil {
		return nil
	}
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		err = operation.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return fmt.Errorf("%s %q: %w", p.Flag, p.Address, err)
}

// Start serves until ctx ends, then drains. Its error has the flag and the address.
func (p Port) Start(ctx context.Context) error {
	if err := p.Server.Start(ctx); err != nil {
		return fmt.Errorf("%s %q: %w", p.Flag, p.Address, err)
	}
	return nil
}
