// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import "syscall"

// dieWithParent returns attributes of a process that the kernel kills when this one ends.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
