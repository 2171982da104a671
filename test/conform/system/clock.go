// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/clock"
)

// offsetVariable is the environment variable with the nanoseconds that a Go program built with Overlay adds to
// its wall clock.
const offsetVariable = "CONFORM_CLOCK_OFFSET"

// newClock returns a wall clock for a dynamically linked program, and the environment variables of that program.
func (e *Environment) newClock() (moved *clock.Clock, environment []string, err error) {
	folder, err := e.newFolder()
	if err != nil {
		return nil, nil, err
	}
	library, err := e.clockLibrary()
	if err != nil {
		return nil, nil, err
	}
	if moved, err = clock.New(folder); err != nil {
		return nil, nil, err
	}
	return moved, moved.Environment(library), nil
}

// clockLibrary compiles the library once.
func (e *Environment) clockLibrary() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	library := filepath.Join(e.folder, clock.LibraryName())
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	return library, clock.Compile(library)
}

// hasOffset reports whether the Go program was built with Overlay.
func hasOffset(program string) (bool, error) {
	data, err := os.ReadFile(program)
	return bytes.Contains(data, []byte(offsetVariable)), err
}

// goOffset returns the environment variables that move the clock of a Go program.
func goOffset(program string, offsets []time.Duration, instance int) ([]string, error) {
	if len(offsets) == 0 || offsets[instance] == 0 {
		return nil, nil
	}
	if ok, err := hasOffset(program); err != nil || !ok {
		return nil, errors.Join(err, fmt.Errorf("the clock of %s: %w; build it with -overlay", program, ErrUnsupported))
	}
	return []string{fmt.Sprintf("%s=%d", offsetVariable, offsets[instance].Nanoseconds())}, nil
}

// Overlay writes changes of Go's package time, and the file that names them for `go build -overlay`, into the
// folder. A program built with it adds CONFORM_CLOCK_OFFSET to its wall clock, in nanoseconds. It is for programs that
// are linked statically, where no library can do so.
func Overlay(ctx context.Context, folder string) (path string, err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	files := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(files, "time.go"))
	if err != nil {
		return "", err
	}
	const reading = "\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(source), reading) != 1 {
		return "", fmt.Errorf("time.Now of %s does not read the clock as expected", files)
	}
	replace := map[string]string{}
	for name, text := range map[string]string{
		"time.go":  strings.Replace(string(source), reading, reading+"\tsec, nsec = moved(sec, nsec)\n", 1),
		"moved.go": movedSource,
	} {
		replace[filepath.Join(files, name)] = filepath.Join(folder, name)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	names, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, names, 0o600)
}

// movedSource is a further file of package time. It cannot use strconv, which imports this package.
const movedSource = `package time

import "syscall"

var offset = func() (nanos int64) {
	text, _ := syscall.Getenv("` + offsetVariable + `")
	for _, digit := range []byte(text) {
		if digit >= '0' && digit <= '9' {
			nanos = nanos*10 + int64(digit-'0')
		}
	}
	if len(text) > 0 && text[0] == '-' {
		return -nanos
	}
	return nanos
}()

func moved(sec int64, nsec int32) (int64, int32) {
	total := sec*1e9 + int64(nsec) + offset
	return total / 1e9, int32(total % 1e9)
}
`
