// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// ownGroup are the attributes of a process in a group of its own, which is killed when this process ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
