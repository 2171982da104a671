// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// The ports that FreeAddr chooses from are below those that systems give to outgoing connections
// and to listeners without a port.
const (
	firstPort = 10_000
	ports     = 20_000
)

// FreeAddr returns a loopback address, host:port, on which nothing listens. No other test of this
// user gets it before the test ends, in whatever process.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("weir-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatalf("free port: %v", err)
	}
	for range 1000 {
		port := strconv.Itoa(firstPort + rand.IntN(ports))
		lock, err := os.OpenFile(filepath.Join(dir, port), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			tb.Fatalf("free port: %v", err)
		}
		addr := net.JoinHostPort("127.0.0.1", port)
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && isFree(addr) {
			tb.Cleanup(func() { _ = lock.Close() })
			return addr
		}
		_ = lock.Close()
	}
	tb.Fatal("free port: all are in use")
	return ""
}

func isFree(addr string) bool {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}
