// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock gives a program, such as redis-server, a wall clock that the test sets. It needs Linux, a C compiler and a
// program that is linked dynamically.
package clock

import (
	"crypto/sha256"
	_ "embed" // for source
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// source is the C source of the library that is preloaded into the program. It is in testdata because cgo would
// otherwise compile it into this package.
//
//go:embed testdata/clock.c
var source []byte

// LibraryName returns a file name for the library, which differs between versions of it.
func LibraryName() string {
	return fmt.Sprintf("clock-%s-%x.so", runtime.GOARCH, sha256.Sum256(source))
}

// Compile writes the library to the path.
func Compile(library string) error {
	from := library + ".c"
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return err
	}
	defer os.Remove(from)
	message, err := exec.Command("cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", library, from).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile the clock, which needs a C compiler named cc: %w\n%s", err, message)
	}
	return nil
}

// Clock is the wall clock of programs. It runs like the machine's until it is set or moved, which takes effect at once.
type Clock struct {
	path  string
	words *words
}

// words are shared with the library.
type words struct {
	stillMicros atomic.Int64 // since 1970; 0 while the clock runs
	aheadNanos  atomic.Int64 // of the machine's clock, while it runs
}

// New returns a clock whose file is in the folder.
func New(folder string) (*Clock, error) {
	path := filepath.Join(folder, "clock")
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	size := int(unsafe.Sizeof(words{}))
	err = file.Truncate(int64(size))
	var page []byte
	if err == nil {
		page, err = syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	// The page stays mapped: a leaked goroutine that reads the clock after its test must not crash other tests.
	return &Clock{path: path, words: (*words)(unsafe.Pointer(&page[0]))}, nil
}

// Environment returns the environment variables of a program with this clock.
func (c *Clock) Environment(library string) []string {
	return []string{"WEIR_TEST_CLOCK=" + c.path, "LD_PRELOAD=" + library}
}

// Now returns the time at which the clock stands still.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.Micros()) }

// Micros returns the time at which the clock stands still, in microseconds since 1970; 0 if it runs.
func (c *Clock) Micros() int64 { return c.words.stillMicros.Load() }

// Set lets the clock stand still at t, truncated to microseconds; t may be earlier.
func (c *Clock) Set(t time.Time) { c.SetMicros(t.UnixMicro()) }

// SetMicros lets the clock stand still at a number of microseconds since 1970; 0 lets it run.
func (c *Clock) SetMicros(micros int64) { c.words.stillMicros.Store(micros) }

// Advance advances a clock that stands still by d, truncated to microseconds, and returns the new time.
func (c *Clock) Advance(d time.Duration) time.Time {
	return time.UnixMicro(c.words.stillMicros.Add(d.Microseconds()))
}

// Move adds d to a clock that runs; d may be negative.
func (c *Clock) Move(d time.Duration) { c.words.aheadNanos.Add(d.Nanoseconds()) }
