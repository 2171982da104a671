// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import "syscall"

// dieWithTest returns attributes of a process that the kernel kills with the test binary.
func dieWithTest() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
