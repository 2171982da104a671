// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package system

import "syscall"

// dieWithParent returns empty attributes outside Linux: a server survives if this process is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
