// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files must be quiet before they are read: an editor
	// truncates, writes and renames, and half a file is not what was meant.
	settle = 50 * time.Millisecond
	// recheck is how often the files are read although nothing was reported:
	// some file systems report nothing.
	recheck = 10 * time.Second
)

// watch reads the files again when they change, until ctx ends.
func (e *Endpoint) watch(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }()
	for _, dir := range e.options.Policies {
		if err := watcher.Add(dir); err != nil {
			return fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	// A file may have changed between the first load and now.
	due := time.NewTimer(settle)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			due.Reset(settle)
		case err := <-watcher.Errors:
			e.options.Logger.Warn("Watching policy files", "error", err)
		case <-due.C:
			e.reload(ctx)
			due.Reset(recheck)
		}
	}
}

// reload takes over what changed and says what is wrong, each problem once.
func (e *Endpoint) reload(ctx context.Context) {
	snapshot, errs := e.files.load(ctx)
	bad := map[string]string{}
	for _, err := range errs {
		bad[err.path] = strings.TrimPrefix(bad[err.path]+"; "+err.err.Error(), "; ")
	}
	for path, problem := range bad {
		if e.complaints[path] != problem {
			e.options.Logger.Error("Bad policy file; the plans it last held stay in force", "file", path, "error", problem)
		}
	}
	for path := range e.complaints {
		if _, still := bad[path]; !still {
			e.options.Logger.Info("Policy file is good again", "file", path)
		}
	}
	e.complaints = bad
	e.badFiles.Set(float64(len(bad)))
	if snapshot != nil {
		e.Use(snapshot)
		e.options.Logger.Info("Policies changed", "revision", snapshot.Revision(), "policies", len(snapshot.Plans()))
	}
}
