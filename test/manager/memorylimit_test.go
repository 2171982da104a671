// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/testenv/process"
)

const (
	// memoryOfPods is the memory limit of the chart, in bytes.
	memoryOfPods = 512 << 20
	// memoryRatio is the share of it that the Go runtime of Weir may use.
	memoryRatio = 0.9
)

// cgroupName begins the names of the cgroups.
const cgroupName = "weir-test-"

// inPod returns a change that runs a command with the memory limit of the chart: in a cgroup, which Weir reads as in a pod, or, where this
// process cannot create one, with the variable GOMEMLIMIT.
func inPod(tb testing.TB) func(*exec.Cmd) {
	tb.Helper()
	dir, err := newCgroup(tb, memoryOfPods)
	if err != nil {
		tb.Logf("GOMEMLIMIT instead of a cgroup: %v", err)
		return func(cmd *exec.Cmd) {
			cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%.0f", memoryOfPods*memoryRatio))
		}
	}
	return func(cmd *exec.Cmd) {
		enter := []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs"), cmd.Path}
		cmd.Args = slices.Concat(enter, cmd.Args[1:])
		cmd.Path = "/bin/sh"
	}
}

// podMemory returns the largest memory of the cgroup of the process, in bytes: what the limit of a pod counts. It is
// 0 without a cgroup.
func podMemory(p *process.Running) int {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.Cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 || !strings.Contains(fields[2], cgroupName) {
			continue
		}
		for _, file := range []string{"/sys/fs/cgroup/memory" + fields[2] + "/memory.max_usage_in_bytes", "/sys/fs/cgroup" + fields[2] + "/memory.peak"} {
			if text, err := os.ReadFile(file); err == nil {
				peak, _ := strconv.Atoi(strings.TrimSpace(string(text)))
				return peak
			}
		}
	}
	return 0
}

// newCgroup returns the folder of a new cgroup, of either version, with the memory limit in bytes.
func newCgroup(tb testing.TB, limit int) (dir string, err error) {
	tb.Helper()
	root, file := "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); errors.Is(err, os.ErrNotExist) {
		root, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
	}
	dir, err = os.MkdirTemp(root, cgroupName) //nolint:usetesting // a cgroup must be in the file system of cgroups
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
