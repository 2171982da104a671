// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"crypto/sha256"
	_ "embed" // for clockSource
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// clockSource is the C source of the library that is preloaded into the servers. It is
// in testdata because cgo would otherwise compile it into this package.
//
//go:embed testdata/clock.c
var clockSource []byte

// clockEnv is the environment variable with the path of the file from which the
// preloaded library reads the time.
const clockEnv = "WEIR_TEST_CLOCK"

// clockStart is the initial time of a Clock. All digits of its fraction are set, so that
// a test detects a loss of precision.
var clockStart = time.UnixMicro(1_900_000_000_123_456)

// Clock is the wall clock of one server. It stands still until the test sets it, which
// takes effect at once: TIME, PTTL and the expiry of keys use it, at their resolution of
// microseconds or milliseconds.
type Clock struct {
	micros *atomic.Int64
}

// Now returns the time of the server.
func (c *Clock) Now() time.Time {
	return time.UnixMicro(c.Micros())
}

// Micros returns the time of the server in microseconds since 1970.
func (c *Clock) Micros() int64 {
	return c.micros.Load()
}

// Set sets the clock to t, truncated to microseconds; t may be earlier.
func (c *Clock) Set(t time.Time) {
	c.SetMicros(t.UnixMicro())
}

// SetMicros sets the clock to a number of microseconds since 1970; 0 restores real time.
func (c *Clock) SetMicros(micros int64) {
	c.micros.Store(micros)
}

// Advance advances the clock by d, truncated to microseconds, and returns the new time.
func (c *Clock) Advance(d time.Duration) time.Time {
	return time.UnixMicro(c.micros.Add(d.Microseconds()))
}

// StartRedisWithClock is StartRedis for a server whose wall clock the test sets.
func StartRedisWithClock(tb testing.TB, args ...string) (*Redis, *Clock) {
	tb.Helper()
	return startWithClock(tb, redisServer, args)
}

// StartValkeyWithClock is StartRedisWithClock for a valkey-server.
func StartValkeyWithClock(tb testing.TB, args ...string) (*Redis, *Clock) {
	tb.Helper()
	return startWithClock(tb, valkeyServer, args)
}

func startWithClock(tb testing.TB, program string, args []string) (*Redis, *Clock) {
	tb.Helper()
	clock, env := newClock(tb)
	r := &Redis{tb: tb, program: program, args: args, env: env}
	r.launch(false)
	return r, clock
}

// newClock returns a clock and the environment variables for its server. Where servers can have none, it skips the
// test; hack/test.sh, which lets no other test skip itself, finds the words of the reason.
func newClock(tb testing.TB) (*Clock, []string) {
	tb.Helper()
	if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
		tb.Skipf("needs a clock in the server, so Linux and a C compiler: %s", tb.Name())
	}
	path := filepath.Join(tb.TempDir(), "clock")
	initial := binary.NativeEndian.AppendUint64(nil, uint64(clockStart.UnixMicro()))
	if err := os.WriteFile(path, initial, 0o600); err != nil {
		tb.Fatalf("clock file: %v", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		tb.Fatalf("clock file: %v", err)
	}
	defer file.Close()
	page, err := syscall.Mmap(int(file.Fd()), 0, len(initial), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		tb.Fatalf("map clock file: %v", err)
	}
	// The page stays mapped: a leaked goroutine that reads the clock after its test must
	// not crash other tests.
	clock := &Clock{micros: (*atomic.Int64)(unsafe.Pointer(&page[0]))}
	return clock, []string{clockEnv + "=" + path, "LD_PRELOAD=" + clockLibrary(tb)}
}

// clockLibrary compiles the preloaded library unless it exists, and returns its path.
func clockLibrary(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("clock-%s-%x.so", runtime.GOARCH, sha256.Sum256(clockSource))
	library := filepath.Join(ModuleRoot(tb), "bin", "testenv", name)
	if err := WriteOnce(library, compileClock); err != nil {
		tb.Fatalf("compile the test clock: %v (it needs a C compiler named cc; %s)", err, installHint)
	}
	return library
}

func compileClock(output string) error {
	source := output + ".c"
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return err
	}
	defer os.Remove(source)
	message, err := exec.Command("cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", output, source).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, message)
	}
	return nil
}
