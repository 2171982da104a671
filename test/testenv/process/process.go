// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process finds the programs that tests run as processes: weir and its kubectl plugin, which
// `make programs` builds, and Prometheus. It also runs weir. The tests of a package that imports it belong to
// `make test-process`, unless they also need Kubernetes, proxies or a browser.
//
// Read the files in this order:
//
//	process.go  the paths of the programs
//	weir.go     Running: a weir process
package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/testenv"
)

const (
	buildHint      = "run `make programs`"
	prometheusHint = "run hack/prometheus.sh"
)

// Weir returns the path of weir, built from the current sources.
func Weir(tb testing.TB) string {
	tb.Helper()
	return built(tb, "weir")
}

// Plugin returns the path of kubectl-weir, built from the current sources.
func Plugin(tb testing.TB) string {
	tb.Helper()
	return built(tb, "kubectl-weir")
}

// Promtool returns the path of promtool.
func Promtool(tb testing.TB) string {
	tb.Helper()
	return testenv.ProgramOnPath(tb, "promtool", prometheusHint)
}

// Prometheus returns the path of prometheus.
func Prometheus(tb testing.TB) string {
	tb.Helper()
	return testenv.ProgramOnPath(tb, "prometheus", prometheusHint)
}

// built returns the path of a program of ours. It fails the test if the program is older than a file that it
// is built from, because the test would then judge another version.
func built(tb testing.TB, name string) string {
	tb.Helper()
	root := testenv.ModuleRoot(tb)
	path := testenv.ProgramAt(tb, filepath.Join(root, "bin", "test", name), buildHint)
	program, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	newest, err := newestSource(root)
	if err != nil {
		tb.Fatal(err)
	}
	if newest.changed.After(program.ModTime()) {
		tb.Fatalf("%s is older than %s: %s", path, newest.path, buildHint)
	}
	return path
}

// source is a file that the programs are built from.
type source struct {
	path    string
	changed time.Time
}

var sources struct {
	sync.Once
	newest source
	err    error
}

// forTests are the names of folders that no program is built from.
var forTests = []string{"testdata", "testenv", "storetest", "publishertest"}

// newestSource returns the file that was changed last.
func newestSource(root string) (source, error) {
	sources.Do(func() {
		for _, folder := range []string{"go.mod", "api", "cmd", "config/crd", "internal"} {
			err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if entry.IsDir() {
					if slices.Contains(forTests, entry.Name()) {
						return fs.SkipDir
					}
					return nil
				}
				if strings.HasSuffix(path, "_test.go") {
					return nil
				}
				info, err := entry.Info()
				if err == nil && info.ModTime().After(sources.newest.changed) {
					sources.newest = source{path: path, changed: info.ModTime()}
				}
				return err
			})
			if err != nil {
				sources.err = fmt.Errorf("sources of the programs: %w", err)
				return
			}
		}
	})
	return sources.newest, sources.err
}
