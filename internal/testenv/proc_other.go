// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testenv

import "syscall"

// dieWithParent has no counterpart outside Linux: a server whose test binary is
// killed stays behind.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{}
}

// halted cannot be told outside Linux.
func halted(int) bool { return true }

// killChild leaves the process to be asked politely.
func killChild(string, string) {}
