// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weir-dev/weir/internal/policyfile"
)

const (
	// settleTime is how long files must be unchanged after a write before they are read: an editor
	// truncates and writes, and an incomplete file must not be loaded.
	settleTime = 50 * time.Millisecond
	// renameTime is how long they must be unchanged after anything else: what is renamed into its place is complete. One change
	// of a folder is several events.
	renameTime = 2 * time.Millisecond
)

// recheckInterval is how often the files are read without a change event: some file systems send none. Only tests set it.
var recheckInterval = 10 * time.Second

// watch reloads the files when they change, until ctx ends.
func (e *Server) watch(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }()
	if err := e.watchFolders(watcher); err != nil {
		return err
	}
	// A file may have changed between the first load and now.
	due := time.NewTimer(settleTime)
	defer due.Stop()
	written := false // since the last load
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-watcher.Events:
			written = written || isWrite(event)
			wait := renameTime
			if written {
				wait = settleTime
			}
			due.Reset(wait)
		case err := <-watcher.Errors:
			e.options.Logger.Warn("Failed to watch policy files", "error", err)
		case <-due.C:
			written = false
			watched := len(watcher.WatchList())
			e.reload(ctx)
			if err := e.watchFolders(watcher); err != nil {
				e.options.Logger.Warn("Failed to watch policy files", "error", err)
			}
			due.Reset(recheckInterval)
			if len(watcher.WatchList()) != watched { // a new folder may have got files before it was watched
				due.Reset(settleTime)
			}
		}
	}
}

// isWrite reports whether the event is the write of a policy file, which may be incomplete.
func isWrite(event fsnotify.Event) bool {
	return event.Has(fsnotify.Write) && policyfile.IsManifest(event.Name)
}

// watchFolders watches the folders that the last load has found, except those that were removed since. The watcher ignores those that
// it watches, and forgets those that are removed.
func (e *Server) watchFolders(watcher *fsnotify.Watcher) error {
	for _, folder := range e.files.folders {
		if err := watcher.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", folder, err)
		}
	}
	return nil
}

// reload loads the files, uses the plans if they changed, and logs each problem once.
func (e *Server) reload(ctx context.Context) {
	snapshot, errs := e.files.load(ctx)
	bad := map[string]string{}
	for _, err := range errs {
		bad[err.path] = strings.TrimPrefix(bad[err.path]+"; "+err.inFile(), "; ")
	}
	for path, problem := range bad {
		if e.loggedProblems[path] != problem {
			e.options.Logger.Error("Failed to load policy file; its last good plans stay in force", "file", path, "error", problem)
		}
	}
	for path := range e.loggedProblems {
		if _, still := bad[path]; !still {
			e.options.Logger.Info("Policy file is valid again", "file", path)
		}
	}
	e.loggedProblems = bad
	e.badFiles.Set(float64(len(bad)))
	if snapshot != nil {
		e.Use(snapshot)
		e.options.Logger.Info("Reloaded policies", "revision", snapshot.Revision(), "policies", len(snapshot.Plans()))
	}
}
