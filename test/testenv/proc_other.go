// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testenv

import "syscall"

// DieWithParent returns empty attributes outside Linux: a server survives if its test
// binary is killed.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{}
}

// halted cannot be determined outside Linux.
func halted(int) bool { return true }

// KillChild does nothing outside Linux; the caller stops the process gracefully.
func KillChild(string, string) {}
