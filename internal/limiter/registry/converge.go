// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// minRepublishInterval is the minimum time between epochs started because a replica rejects
// the registry. A replica that rejects every epoch must not make all others reload endlessly.
const minRepublishInterval = 5 * time.Second

// converge makes the registry equal to the desired plans.
func (l *leaderLoop) converge(ctx context.Context, h *header, alive []heartbeat) error {
	switch {
	case h.complete && l.unconfirmed != nil && h.version == l.unconfirmed.to:
		l.commit(l.unconfirmed) // Redis had run it
	case h.complete && h.version == l.current:
	default:
		return l.startEpoch(ctx, h, alive, "registry lost or restored from an earlier state")
	}
	l.unconfirmed = nil
	if reason := l.mustRepublish(h, alive); reason != "" {
		// Before MarkSynced the leader cannot begin an epoch, so it continues with this one.
		err := l.startEpoch(ctx, h, alive, reason)
		if !errors.Is(err, ErrEpochLost) {
			l.lastRepublish = h.now
			return err
		}
	}
	return l.flush(ctx)
}

// mustRepublish returns why a correct epoch must be replaced, or "". A live replica may reject
// it, because it runs a later version or found other plans; at most once per
// minRepublishInterval. Or the epoch has the former name of the installation, and every
// process accepts the new one.
func (l *leaderLoop) mustRepublish(h *header, alive []heartbeat) string {
	if h.epoch.owner() != l.ownerOfEpochs(alive) {
		return "the installation has a new name"
	}
	if l.lastRepublish != 0 && h.now-l.lastRepublish < minRepublishInterval.Microseconds() {
		return ""
	}
	if slices.ContainsFunc(alive, func(r heartbeat) bool {
		return r.Kind == kindReplica && l.writer.options.Installation.accepts(r.Owner) && r.Rejects == h.epoch
	}) {
		return "rejected by a replica"
	}
	return ""
}

// ownerOfEpochs returns the name for new epochs: the name of the installation or, as long as a
// live process of it does not accept that name, the former one.
func (l *leaderLoop) ownerOfEpochs(alive []heartbeat) string {
	names := l.writer.options.Installation.names()
	refuses := func(r heartbeat) bool {
		return l.writer.options.Installation.accepts(r.Owner) && r.Accepts != nil && !slices.Contains(r.Accepts, names[0])
	}
	if slices.ContainsFunc(alive, refuses) {
		return names[len(names)-1]
	}
	return names[0]
}

// startEpoch replaces the registry with all desired plans, under a new epoch.
func (l *leaderLoop) startEpoch(ctx context.Context, h *header, alive []heartbeat, reason string) error {
	changes, ok := l.allPlans()
	if !ok {
		return ErrEpochLost
	}
	next := version{revision: max(h.revision, l.current.revision)}
	stamp := max(h.now-1, h.epoch.stamp(), l.current.epoch.stamp())
	for _, r := range alive {
		stamp = max(stamp, r.Epoch.stamp())
		if r.Kind == kindReplica && l.writer.options.Installation.accepts(r.Owner) {
			next.revision = max(next.revision, r.Revision)
		}
	}
	next.epoch = newEpoch(l.ownerOfEpochs(alive), stamp+1, rand.Text()[:8])
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
	l.writer.metrics.republishes.Inc()
	l.writer.options.Logger.Info("Published all plans in a new epoch", "reason", reason,
		"epoch", next.epoch, "revision", next.revision, "plans", len(changes), "previousEpoch", h.epoch)
	return nil
}

// allPlans returns all desired plans, and whether they are complete.
func (l *leaderLoop) allPlans() (map[string][]byte, bool) {
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	if !l.writer.synced {
		return nil, false
	}
	all := make(map[string][]byte, len(l.writer.entries))
	for id, e := range l.writer.entries {
		all[id] = e.data
	}
	return all, true
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
		l.writer.mu.Lock()
		defer l.writer.mu.Unlock()
		for id := range changes {
			l.writer.dirty[id] = struct{}{}
		}
	}
	return err
}

// takeDirty returns the changes from the stored plans to the desired ones; nil data deletes.
func (l *leaderLoop) takeDirty() map[string][]byte {
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	changes := make(map[string][]byte, len(l.writer.dirty))
	for id := range l.writer.dirty {
		stored, isStored := l.stored[id]
		e := l.writer.entries[id]
		switch {
		case e == nil && isStored:
			changes[id] = nil
		case e == nil:
		case !isStored || !bytes.Equal(stored, e.data):
			changes[id] = e.data
		case e.revision == 0:
			e.revision = l.current.revision
			delete(l.writer.withdrawn, id)
			notify(l.writer.changed)
		}
	}
	clear(l.writer.dirty)
	return changes
}

// publish writes the batch and commits it once Redis confirmed it.
func (l *leaderLoop) publish(ctx context.Context, w *write) error {
	timer := prometheus.NewTimer(l.writer.metrics.duration)
	if err := l.writer.scripts.publish(ctx, l.term, l.holder, w); err != nil {
		// Redis may have run it: the reply may be lost, or a retry of the client was
		// rejected because the first attempt succeeded.
		l.unconfirmed = w
		return fmt.Errorf("write %d plans: %w", len(w.changes), err)
	}
	timer.ObserveDuration()
	l.writer.metrics.published.SetToCurrentTime()
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
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	l.writer.observed.epoch = l.current.epoch
	if w.replaces() {
		clear(l.writer.withdrawn)
	}
	for id := range w.changes {
		delete(l.writer.withdrawn, id)
		if e := l.writer.entries[id]; e != nil && bytes.Equal(e.data, l.stored[id]) {
			e.revision = w.to.revision
		}
	}
	notify(l.writer.changed)
}
