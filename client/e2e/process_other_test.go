// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package e2e

import "syscall"

// dieWithTest returns no attributes outside Linux: a process survives if its test binary is killed.
func dieWithTest() *syscall.SysProcAttr { return nil }
