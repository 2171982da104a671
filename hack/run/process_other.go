// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// ownGroup are the attributes of a process in a group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
