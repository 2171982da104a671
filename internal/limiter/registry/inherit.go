// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// inheritRecords reads the records of the previous leader once. They stay desired until they are set or deleted.
func (l *leaderLoop) inheritRecords(ctx context.Context) error {
	if l.hasInherited() {
		return nil
	}
	isWhole, err := l.readPrevious(ctx)
	if err != nil {
		return err
	}
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	l.writer.inherited, l.writer.holds = true, isWhole
	l.writer.observed.epoch = l.current.epoch
	for id, data := range l.stored {
		l.writer.inheritEntry(id, data, l.current.revision)
	}
	notify(l.writer.changed)
	return nil
}

// inheritEntry makes the record a desired one, unless the caller of the Writer has set or
// deleted it since Lead began. A record that this release cannot decode stays as it is, and the budgets do not count
// it, since the replicas of this release do not load it. The caller holds the lock.
func (w *Writer) inheritEntry(id string, data []byte, revision int64) {
	if w.entries[id] != nil || w.isDirty(id) {
		return
	}
	e := &entry{inherited: true, data: data, revision: revision}
	if r, err := plan.Decode(data); err == nil {
		e.record, e.usage = plan.Outline(r), plan.UsageOf(r, len(data))
	}
	w.replace(id, e)
}

func (l *leaderLoop) hasInherited() bool {
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	return l.writer.inherited
}

// readPrevious reads the records that the previous leader published, and reports whether they are whole.
func (l *leaderLoop) readPrevious(ctx context.Context) (isWhole bool, err error) {
	read, _, plans, err := l.writer.scripts.read(ctx, version{})
	if err != nil {
		return false, err
	}
	if read.term != l.term || read.holder != l.holder {
		return false, errConflict
	}
	if !read.complete || !l.writer.options.Installation.accepts(read.epoch.owner()) {
		return false, nil
	}
	sum := uint64(0)
	for id, data := range plans {
		l.stored[id] = []byte(data)
		sum += digestOf(id, l.stored[id])
	}
	if formatDigest(sum) != read.digest {
		return false, nil
	}
	l.current, l.digestSum = read.version, sum
	return true, nil
}
