// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import "slices"

// programmed returns the first revision with the desired plan, or false if the registry
// does not have it.
func (w *Writer) programmed(id string) (revision int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[id]
	if !e.isPublished() {
		return 0, false
	}
	return e.revision, true
}

// enforced returns the number of live replicas that run the desired plan, and of all live
// replicas.
func (w *Writer) enforced(id string) (running, live int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicasRunning(id, w.published(id)), len(w.observed.replicas)
}

// replicasRunning counts the live replicas that run the published entry of that id, one by one. The caller holds the lock.
func (w *Writer) replicasRunning(id string, e *entry) (running int) {
	if e == nil {
		return 0
	}
	for i := range w.observed.replicas {
		r := &w.observed.replicas[i]
		if e.revision > 0 && r.Epoch == string(w.observed.epoch) && r.Revision >= e.revision && !r.skips.contains(id) {
			running++
		}
	}
	return running
}

// replicas returns the live replicas of the installation in the order of their names, as
// of the last second, and the error that Err returns.
func (w *Writer) replicas() ([]Replica, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped != nil {
		return nil, w.stopped
	}
	return slices.Clone(w.observed.replicas), w.observed.err
}
