// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/clock"
)

// clockStart is the initial time of the clock of a server. All digits of its fraction are set, so that a test detects a
// loss of precision.
var clockStart = time.UnixMicro(1_900_000_000_123_456)

// StartRedisWithClock is StartRedis for a server whose wall clock the test sets. It stands still: TIME, PTTL and
// the expiry of keys use it, at their resolution of microseconds or milliseconds.
func StartRedisWithClock(tb testing.TB, args ...string) (*Redis, *clock.Clock) {
	tb.Helper()
	return startWithClock(tb, redisServer, args)
}

// StartValkeyWithClock is StartRedisWithClock for a valkey-server.
func StartValkeyWithClock(tb testing.TB, args ...string) (*Redis, *clock.Clock) {
	tb.Helper()
	return startWithClock(tb, valkeyServer, args)
}

func startWithClock(tb testing.TB, program string, args []string) (*Redis, *clock.Clock) {
	tb.Helper()
	c, env := newClock(tb)
	r := &Redis{tb: tb, program: program, args: args, env: env}
	r.launch(false)
	return r, c
}

// newClock returns a clock and the environment variables for its server. Where servers can have none, it skips the
// test; hack/test.sh, which lets no other test skip itself, finds the words of the reason.
func newClock(tb testing.TB) (*clock.Clock, []string) {
	tb.Helper()
	if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
		tb.Skipf("needs a clock in the server, so Linux and a C compiler: %s", tb.Name())
	}
	library := filepath.Join(ModuleRoot(tb), "bin", "testenv", clock.LibraryName())
	if err := WriteOnce(library, clock.Compile); err != nil {
		tb.Fatalf("%v; %s", err, installHint)
	}
	c, err := clock.New(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	c.Set(clockStart)
	return c, c.Environment(library)
}
