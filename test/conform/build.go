// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weir-dev/weir/test/conform/system"
)

// prepareWeir builds Weir with a clock that can be moved, unless its program is given or Weir is left out.
func (o *options) prepareWeir(ctx context.Context) (remove func(), err error) {
	switch o.programs.Weir {
	case "none":
		o.programs.Weir = ""
		return func() {}, nil
	case "":
	default:
		return func() {}, nil
	}
	folder, err := os.MkdirTemp("", "conform-weir-")
	if err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	overlay, err := system.Overlay(ctx, folder)
	if err != nil {
		remove()
		return nil, err
	}
	o.programs.Weir = filepath.Join(folder, "weir")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", o.programs.Weir, "github.com/weir-dev/weir/cmd/weir")
	if output, err := build.CombinedOutput(); err != nil {
		remove()
		return nil, fmt.Errorf("build Weir: %w\n%s", err, output)
	}
	return remove, nil
}
