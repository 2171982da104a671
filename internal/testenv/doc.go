// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testenv runs what the tests need: real Redis and Valkey servers,
// optionally with a clock the test sets, a real Redis Cluster, and a real
// kube-apiserver with etcd.
//
// Nothing here is simulated, and nothing is ever skipped: what is missing on the
// machine fails the test with the command that provides it. Every server belongs
// to the test that started it and ends with it, so tests may run side by side.
package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// toolsHint tells how to get what a test misses.
const toolsHint = "run `make test-tools` in the root of the module to install what the tests need"

// moduleRoot is the folder with the go.mod of Weir. Tests run in the folder of
// their package, somewhere below it.
func moduleRoot(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatalf("working directory: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod in or above the working directory")
		}
		dir = parent
	}
}

// writing keeps the tests of one binary from making the same file at once.
var writing sync.Mutex

// writeOnce makes the file path with write unless it is there already. The file
// appears complete or not at all, also when several test binaries race for it.
func writeOnce(path string, write func(temporary string) error) error {
	writing.Lock()
	defer writing.Unlock()
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := write(temporary); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// await asks until the condition holds, and fails the test with what it lacked last
// if that takes too long.
func await(tb testing.TB, what string, condition func() error) {
	tb.Helper()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	timeout := time.After(startTimeout)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout:
			tb.Fatalf("waited %v for %s: %v", startTimeout, what, err)
		}
	}
}
