// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"os"
	"testing"
)

// shared is the API server of all tests of the package, which Main stops.
var shared struct {
	folder string // of certificates; empty outside Main
	server *APIServer
}

// Main runs the tests of a package that call Shared, and returns the exit code for os.Exit.
func Main(m *testing.M) (code int) {
	folder, err := os.MkdirTemp("", "weir-kube-")
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "shared API server:", err)
		return 1
	}
	shared.folder = folder
	defer func() {
		if shared.server != nil {
			if err := shared.server.Env.Stop(); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, "stop kube-apiserver and etcd:", err)
				code = max(code, 1)
			}
		}
		_ = os.RemoveAll(folder)
	}()
	return m.Run()
}

// Shared returns the API server that the tests of a package share, one after the other: a test that calls it must not
// run in parallel with others. The first call starts it. Each call first removes what former tests left there; see
// reset. A test may stop the server: it runs again when the test has ended.
func Shared(tb testing.TB) *APIServer {
	tb.Helper()
	if shared.folder == "" {
		tb.Fatal("shared API server: TestMain does not call kube.Main")
	}
	if shared.server == nil {
		shared.server = start(tb, shared.folder)
	} else {
		shared.server.tb = tb
		shared.server.reset()
	}
	server := &APIServer{Config: shared.server.Config, Env: shared.server.Env, tb: tb}
	tb.Cleanup(func() {
		if server.stopped {
			server.Start()
		}
	})
	return server
}
