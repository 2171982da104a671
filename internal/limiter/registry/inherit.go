// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// inheritRecords reads the records of the previous leader once, from every format that it maintained.
// They stay desired until they are set or deleted.
func (l *leaderLoop) inheritRecords(ctx context.Context, h *header) error {
	if l.hasInherited() {
		return nil
	}
	for _, f := range l.formats {
		if err := f.readPrevious(ctx, h); err != nil {
			return err
		}
	}
	l.recordHolding()
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	l.writer.inherited = true
	for _, f := range l.formats {
		l.writer.observed.epochs[f.slot] = f.current.epoch
		for id, data := range f.stored {
			l.writer.inheritEntry(id, f.slot, form{data: data, revision: f.current.revision})
		}
	}
	return nil
}

// inheritEntry makes the record a desired one, unless the caller of the Writer has set or
// deleted it since Lead began. The budgets do not count a record that this release cannot
// decode, since its replicas do not load it. The caller holds the lock.
func (w *Writer) inheritEntry(id string, slot int, f form) {
	e := w.entries[id]
	if e == nil && !w.isDirty(id) {
		e = &entry{inherited: true}
		e.forms[slot] = f
		if r := e.decode(); r != nil {
			e.record, e.usage = plan.Outline(r), plan.UsageOf(r, len(f.data))
		}
		w.replace(id, e)
		return
	}
	if e == nil || !e.inherited {
		return
	}
	if newest := e.decoded(); newest != nil && !f.isOf(newest) {
		w.dirty[slot][id] = struct{}{} // the last form of a record that the format cannot express, or an unfinished write
		return
	}
	e.forms[slot] = f
}

func (l *leaderLoop) hasInherited() bool {
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	return l.writer.inherited
}

// readPrevious reads the records that the previous leader published in this format.
func (f *formatWriter) readPrevious(ctx context.Context, h *header) error {
	if len(h.formats) > 0 && !h.formats[f.scripts.format].Maintained {
		return nil // an earlier leader has left it
	}
	read, _, plans, err := f.scripts.read(ctx, version{})
	if err != nil {
		return err
	}
	if read.term != f.leadership.term || read.holder != f.leadership.holder {
		return errConflict
	}
	if !read.complete || !f.writer.installation.accepts(read.epoch.owner()) {
		return nil
	}
	sum := uint64(0)
	for id, data := range plans {
		f.stored[id] = []byte(data)
		sum += digestOf(id, f.stored[id])
	}
	if formatDigest(sum) == read.digest {
		f.current, f.digestSum, f.complete = read.version, sum, true
	}
	return nil
}
