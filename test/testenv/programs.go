// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// ModuleRoot returns the folder with the go.mod of Weir, searching upwards from the
// folder of the test's package.
func ModuleRoot(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatalf("working directory: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "weir", "main.go")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("the working directory is not in the repository of Weir")
		}
		dir = parent
	}
}

// ProgramOnPath returns the path of a program on PATH. The hint names the command that installs it.
func ProgramOnPath(tb testing.TB, name, hint string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("no %s on PATH: %s", name, hint)
	}
	return path
}

// ProgramAt returns the path. It fails the test if there is no file; the hint names the command that installs it.
func ProgramAt(tb testing.TB, path, hint string) string {
	tb.Helper()
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("no %s in %s: %s", filepath.Base(path), filepath.Dir(path), hint)
	}
	return path
}

// PinnedVersion returns the version of a module, without v, in the go.mod of a folder of the repository.
func PinnedVersion(tb testing.TB, folder, module string) string {
	tb.Helper()
	pattern := `(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` v(\S+)`
	return FirstMatch(tb, filepath.Join(ModuleRoot(tb), folder, "go.mod"), pattern)
}

// FirstMatch returns the first group of the pattern in a file.
func FirstMatch(tb testing.TB, path, pattern string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(data)
	if found == nil {
		tb.Fatalf("%s has no match of %s", path, pattern)
	}
	return string(found[1])
}
