// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/reject"
)

// forms are what the values of flags must be, by the type of the flag.
var forms = map[string]string{
	"bool":     "must be true or false",
	"duration": duration.Form,
	"int":      "must be a whole number",
	"int64":    "must be a whole number",
}

// explainFlagError names the form of a value that does not parse.
func explainFlagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if form := forms[invalid.GetFlag().Value.Type()]; form != "" {
			return fmt.Errorf("--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), form)
		}
	}
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}

// validateAddress rejects an address other than host:port. An empty address turns the port off.
func validateAddress(flag, address, example string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return reject.If(err != nil, "%s %q: must be host:port, such as %s, or empty", flag, address, example)
}

// parseNetwork parses a network of the flag.
func parseNetwork(flag, text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	if err == nil {
		return network, nil
	}
	example := "10.0.0.0/8"
	if address, err := netip.ParseAddr(text); err == nil {
		example = netip.PrefixFrom(address.WithZone(""), address.BitLen()).String()
	}
	return network, fmt.Errorf("%s %q: must be a network in CIDR form, such as %s", flag, text, example)
}

// readable returns an error if the file of the flag cannot be read. An empty path is valid.
func readable(flag, path string) error {
	if path == "" {
		return nil
	}
	_, err := os.ReadFile(path)
	return reject.Wrap(flag, err)
}
