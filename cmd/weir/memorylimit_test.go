// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// memoryOfPods is the memory limit of the chart, in bytes.
const memoryOfPods = 512 << 20

// inPod runs the command with the memory limit of the chart: in a cgroup, which Weir reads as in a pod, or, where this
// process cannot create one, with the variable GOMEMLIMIT.
func inPod(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	dir, err := newCgroup(tb, memoryOfPods)
	if err != nil {
		tb.Logf("GOMEMLIMIT instead of a cgroup: %v", err)
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%.0f", memoryOfPods*memoryRatio))
		return
	}
	enter := []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs")}
	cmd.Args = append(enter, append([]string{cmd.Path}, cmd.Args[1:]...)...)
	cmd.Path = "/bin/sh"
}

// newCgroup returns the folder of a new cgroup, of either version, with the memory limit in bytes.
func newCgroup(tb testing.TB, limit int) (dir string, err error) {
	tb.Helper()
	root, file := "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); errors.Is(err, os.ErrNotExist) {
		root, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
	}
	dir, err = os.MkdirTemp(root, "weir-test-")
	if err != nil {
		return "", err
	}
	tb.Cleanup(func() {
		if err := os.Remove(dir); err != nil { // its process has ended, because cleanups run last in, first out
			tb.Errorf("remove the cgroup: %v", err)
		}
	})
	// The mode 0 opens a file that the kernel has created.
	return dir, os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0)
}
