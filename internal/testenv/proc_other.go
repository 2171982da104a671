// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testenv

import "syscall"

// dieWithParent does nothing outside Linux: a server survives if its test binary is
// killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{}
}

// halted cannot be determined outside Linux.
func halted(int) bool { return true }

// killChild does nothing outside Linux; the caller stops the process gracefully.
func killChild(string, string) {}
