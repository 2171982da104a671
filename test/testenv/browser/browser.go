// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser starts Chromium for tests of pages. The tests of a package that imports it belong to
// `make test-console`.
package browser

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weir-dev/weir/test/testenv"
)

// installHint is the command that installs Chromium and axe-core.
const installHint = "run hack/browser.sh"

// Start starts Chromium, which ends with the test, and returns the context in which chromedp opens its tabs.
func Start(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // the sandbox does not work for root
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("Chromium does not start: %v; %s", err, installHint)
	}
	return ctx
}

// Axe returns the script axe-core, which finds what excludes people from a page.
func Axe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(testenv.ModuleRoot(t), "test", "console", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("%v; %s", err, installHint)
	}
	return string(script)
}
