// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import "slices"

// programmed returns the revision since which the wanted plan of that id is in
// the registry, and false if it is not.
func (w *Writer) programmed(id string) (revision int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revisionOf(id)
}

// enforced counts the live replicas that run the wanted plan of that id, and all
// live replicas.
func (w *Writer) enforced(id string) (running, live int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicasRunning(id), len(w.observed.replicas)
}

// replicas returns the live replicas of the installation by name, as they were
// within the last second, and what Err returns.
func (w *Writer) replicas() ([]Replica, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped != nil {
		return nil, w.stopped
	}
	return slices.Clone(w.observed.replicas), w.observed.err
}
