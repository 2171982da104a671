// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// minRepublishInterval is the minimum time between epochs begun because a replica rejects
// the registry. A replica that rejects every epoch must not make all others reload endlessly.
const minRepublishInterval = 5 * time.Second

// mustRepublish reports whether a live replica rejects the current epoch, because it runs a
// later version or found other plans; at most once per minRepublishInterval.
func (l *leaderLoop) mustRepublish(h *header, alive []report) bool {
	if l.lastRepublish != 0 && h.now-l.lastRepublish < minRepublishInterval.Microseconds() {
		return false
	}
	return slices.ContainsFunc(alive, func(r report) bool {
		return r.isReplica(l.owner) && r.Rejects == h.epoch
	})
}

// startEpoch replaces the content of the registry with all desired plans, under a new epoch.
func (l *leaderLoop) startEpoch(ctx context.Context, h *header, alive []report, reason string) error {
	changes, ok := l.allPlans()
	if !ok {
		return ErrEpochLost
	}
	next := version{revision: max(h.revision, l.current.revision)}
	stamp := max(h.now-1, h.epoch.stamp(), l.current.epoch.stamp())
	for _, r := range alive {
		stamp = max(stamp, r.Epoch.stamp())
		if r.isReplica(l.owner) {
			next.revision = max(next.revision, r.Revision)
		}
	}
	next.epoch = newEpoch(l.owner, stamp+1, rand.Text()[:8])
	next.revision++
	sum := uint64(0)
	for id, data := range changes {
		sum += digestOf(id, data)
	}
	next.digest = formatDigest(sum)
	w := &write{from: h.version, to: next, changes: changes, count: len(changes)}
	if err := l.publish(ctx, w); err != nil {
		return err
	}
	l.metrics.republishes.Inc()
	l.logger.Info("Published all plans in a new epoch", "reason", reason,
		"epoch", next.epoch, "revision", next.revision, "plans", len(changes), "previousEpoch", h.epoch)
	return nil
}

// allPlans returns all desired plans, and whether they are complete.
func (l *leaderLoop) allPlans() (map[string][]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string][]byte, len(l.entries))
	for id, e := range l.entries {
		all[id] = e.data
	}
	return all, l.synced
}

// flush writes the changes since the last write.
func (l *leaderLoop) flush(ctx context.Context) error {
	changes := l.takeDirty()
	if len(changes) == 0 {
		return nil
	}
	sum, count := l.digestSum, len(l.stored)
	for id, data := range changes {
		if old, ok := l.stored[id]; ok {
			sum -= digestOf(id, old)
			count--
		}
		if data != nil {
			sum += digestOf(id, data)
			count++
		}
	}
	to := version{epoch: l.current.epoch, revision: l.current.revision + 1, digest: formatDigest(sum)}
	err := l.publish(ctx, &write{from: l.current, to: to, changes: changes, count: count})
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id := range changes {
			l.dirty[id] = struct{}{}
		}
	}
	return err
}

// takeDirty returns the changes from the stored plans to the desired ones; nil data deletes.
func (l *leaderLoop) takeDirty() map[string][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	changes := make(map[string][]byte, len(l.dirty))
	for id := range l.dirty {
		old, isStored := l.stored[id]
		e := l.entries[id]
		switch {
		case e == nil && isStored:
			changes[id] = nil
		case e == nil:
		case isStored && bytes.Equal(old, e.data):
			if e.revision == 0 {
				e.revision = l.current.revision
				notify(l.changed)
			}
		default:
			changes[id] = e.data
		}
	}
	clear(l.dirty)
	return changes
}

// publish writes the batch and commits it once Redis confirmed it.
func (l *leaderLoop) publish(ctx context.Context, w *write) error {
	timer := prometheus.NewTimer(l.metrics.duration)
	if err := l.scripts.publish(ctx, l.term, l.holder, w); err != nil {
		// Redis may have run it: the reply may be lost, or a retry of the client was
		// rejected because the first attempt succeeded.
		l.unconfirmed = w
		return fmt.Errorf("write %d plans: %w", len(w.changes), err)
	}
	timer.ObserveDuration()
	l.commit(w)
	return nil
}

// commit records a write that Redis has run.
func (l *leaderLoop) commit(w *write) {
	if w.replaces() {
		l.stored, l.digestSum = make(map[string][]byte, len(w.changes)), 0
	}
	for id, data := range w.changes {
		if old, ok := l.stored[id]; ok {
			l.digestSum -= digestOf(id, old)
			delete(l.stored, id)
		}
		if data != nil {
			l.stored[id] = data
			l.digestSum += digestOf(id, data)
		}
	}
	l.current, l.unconfirmed, l.rolloutPolls = w.to, nil, maxRolloutPolls
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observed.epoch = l.current.epoch
	for id := range w.changes {
		if e := l.entries[id]; e != nil && bytes.Equal(e.data, l.stored[id]) {
			e.revision = w.to.revision
		}
	}
	notify(l.changed)
}
