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

// dieWithParent makes the kernel end a server when the test binary is killed, for
// example by a timeout, since no cleanup runs then.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// halted reports whether every thread of the process has stopped: the signal
// that stops it is only on its way when kill returns.
func halted(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the name, which is in parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) > 0 && string(fields[0]) == "T"
}

// killChild kills the processes of that name which have that argument, which must
// tell ours from all others.
func killChild(name, argument string) {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		args := strings.Split(string(command), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && filepath.Base(args[0]) == name && slices.Contains(args, argument) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
