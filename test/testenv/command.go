// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"os/exec"
)

// Command is exec.Command for a process that ends with the process of the test, even if that is killed. Tests use
// it for everything that they run; test/layout holds that.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = DieWithParent()
	return cmd
}

// CommandContext is Command for a process that is also killed when the context ends.
func CommandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = DieWithParent()
	return cmd
}
