// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import "syscall"

// dieWithParent makes the kernel end a server when the test binary is killed, for
// example by a timeout, since no cleanup runs then.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
