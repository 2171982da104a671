// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"slices"
)

// Sweep deletes orphans: plans that the previous leader published, that were not set since
// Lead began, and whose ID is not live. It calls live without holding a lock, so live may take
// long; a plan that is set meanwhile stays. After an error of live no plan is deleted. It fails
// without waiting like Set.
func (w *Writer) Sweep(ctx context.Context, live func(ctx context.Context, id string) (bool, error)) error {
	candidates, err := w.inheritedEntries(ctx)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for id := range candidates {
		isLive, err := live(ctx, id)
		if err != nil {
			return fmt.Errorf("sweep plan %s: %w", id, err)
		}
		if isLive {
			delete(candidates, id)
		}
	}
	orphans, b, err := w.deleteUnchanged(ctx, candidates)
	if len(orphans) > 0 {
		err = w.await(ctx, b, orphans[0], err)
	}
	if err != nil {
		return fmt.Errorf("sweep %d plans: %w", len(orphans), err)
	}
	w.metrics.orphans.Add(float64(len(orphans)))
	return nil
}

// inheritedEntries returns the desired plans that were not set since Lead began.
func (w *Writer) inheritedEntries(ctx context.Context) (map[string]*entry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.rejects(ctx); err != nil {
		return nil, err
	}
	if w.failing != nil {
		return nil, w.failing
	}
	if !w.inherited {
		return nil, w.observed.err
	}
	found := map[string]*entry{}
	for id, e := range w.entries {
		if e.inherited {
			found[id] = e
		}
	}
	return found, nil
}

// deleteUnchanged removes the entries from the desired plans, except those that were set or
// deleted since. It returns the removed IDs, sorted, and the batch to wait for.
func (w *Writer) deleteUnchanged(ctx context.Context, orphans map[string]*entry) ([]string, *batch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.rejects(ctx); err != nil {
		return nil, nil, err
	}
	var ids []string
	for id, e := range orphans {
		if w.entries[id] == e {
			w.replace(id, nil)
			w.markDirty(id)
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, w.batch, w.failing
}
