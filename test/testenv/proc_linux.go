// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// DieWithParent returns attributes of a process that the kernel kills with the test binary,
// for example after a timeout, when no cleanup runs.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// halted reports whether every thread of the process has stopped.
func halted(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	running := func(path string) bool {
		stat, err := os.ReadFile(path)
		if err != nil {
			return true // the thread has ended: look again
		}
		// The state follows the name, which is in parentheses.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		return len(fields) == 0 || string(fields[0]) != "T"
	}
	return len(threads) > 0 && !slices.ContainsFunc(threads, running)
}

// KillChild kills the processes with the name and the argument, which must identify the
// test's own process.
func KillChild(name, argument string) {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		args := strings.Split(string(command), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && filepath.Base(args[0]) == name && slices.Contains(args, argument) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
