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

// formatWriter keeps the registry in one format equal to the desired plans. Only the
// goroutine of Lead uses it.
type formatWriter struct {
	writer     *Writer
	leadership *leadership
	scripts    scripts
	slot       int // position of the format among the supported ones

	current   version           // last known version
	stored    map[string][]byte // plans of current
	digestSum uint64            // digest of current
	complete  bool              // the registry has held all desired plans in this term

	// unconfirmed is a failed write that Redis may have run; see publish.
	unconfirmed *write
	// lastRepublish is the server time, in microseconds, of the last epoch begun because
	// a replica rejected the previous one.
	lastRepublish int64
}

// sync makes the registry in this format equal to the desired plans. The header
// belongs to the newest format.
func (f *formatWriter) sync(ctx context.Context, h *header, alive []heartbeat) error {
	if f.slot != 0 {
		own, _, err := f.scripts.heartbeat(ctx, nil)
		if err != nil {
			return err
		}
		if own.term != f.leadership.term || own.holder != f.leadership.holder {
			return errConflict
		}
		h = &own
	}
	if err := f.converge(ctx, h, alive); err != nil {
		return err
	}
	f.complete = true
	return nil
}

func (f *formatWriter) converge(ctx context.Context, h *header, alive []heartbeat) error {
	switch {
	case h.complete && f.unconfirmed != nil && h.version == f.unconfirmed.to:
		f.commit(f.unconfirmed) // Redis had run it
	case h.complete && h.version == f.current:
	default:
		return f.startEpoch(ctx, h, alive, "registry lost or restored from an earlier state")
	}
	f.unconfirmed = nil
	if reason := f.mustRepublish(h, alive); reason != "" {
		// Before MarkSynced the leader cannot begin an epoch, so it continues with this one.
		err := f.startEpoch(ctx, h, alive, reason)
		if !errors.Is(err, ErrEpochLost) {
			f.lastRepublish = h.now
			return err
		}
	}
	return f.flush(ctx)
}

// mustRepublish returns why a correct epoch must be replaced, or "". A live replica may reject
// it, because it runs a later version or found other plans; at most once per
// minRepublishInterval. Or the epoch has the former name of the installation, and every
// process accepts the new one.
func (f *formatWriter) mustRepublish(h *header, alive []heartbeat) string {
	if h.epoch.owner() != f.ownerOfEpochs(alive) {
		return "the installation has a new name"
	}
	if f.lastRepublish != 0 && h.now-f.lastRepublish < minRepublishInterval.Microseconds() {
		return ""
	}
	if slices.ContainsFunc(alive, func(r heartbeat) bool {
		return r.Kind == kindReplica && f.writer.installation.accepts(r.Owner) && r.Rejects == h.epoch
	}) {
		return "rejected by a replica"
	}
	return ""
}

// ownerOfEpochs returns the name for new epochs: the name of the installation or, as long as a
// live process of it does not accept that name, the former one.
func (f *formatWriter) ownerOfEpochs(alive []heartbeat) string {
	names := f.writer.installation.names()
	refuses := func(r heartbeat) bool {
		return f.writer.installation.accepts(r.Owner) && r.Accepts != nil && !slices.Contains(r.Accepts, names[0])
	}
	if slices.ContainsFunc(alive, refuses) {
		return names[len(names)-1]
	}
	return names[0]
}

// startEpoch replaces the registry in this format with all desired plans, under a new epoch.
func (f *formatWriter) startEpoch(ctx context.Context, h *header, alive []heartbeat, reason string) error {
	changes, ok := f.allPlans()
	if !ok {
		return ErrEpochLost
	}
	next := version{revision: max(h.revision, f.current.revision)}
	stamp := max(h.now-1, h.epoch.stamp(), f.current.epoch.stamp())
	for _, r := range alive {
		stamp = max(stamp, r.Epoch.stamp())
		if r.Kind == kindReplica && f.writer.installation.accepts(r.Owner) {
			next.revision = max(next.revision, r.Revision)
		}
	}
	next.epoch = newEpoch(f.ownerOfEpochs(alive), stamp+1, rand.Text()[:8])
	next.revision++
	sum := uint64(0)
	for id, data := range changes {
		sum += digestOf(id, data)
	}
	next.digest = formatDigest(sum)
	w := &write{from: h.version, to: next, changes: changes, count: len(changes)}
	if err := f.publish(ctx, w); err != nil {
		return err
	}
	f.writer.metrics.republishes.Inc()
	f.writer.logger.Info("Published all plans in a new epoch", "reason", reason, "format", f.scripts.format,
		"epoch", next.epoch, "revision", next.revision, "plans", len(changes), "previousEpoch", h.epoch)
	return nil
}

// allPlans returns all desired plans, and whether they are complete. A plan that the format cannot express
// has its last form, if that stays, or is missing.
func (f *formatWriter) allPlans() (map[string][]byte, bool) {
	f.writer.mu.Lock()
	defer f.writer.mu.Unlock()
	if !f.writer.synced {
		return nil, false
	}
	all := make(map[string][]byte, len(f.writer.entries))
	for id, e := range f.writer.entries {
		if data := e.encoded(f.slot, f.scripts.format); data != nil {
			all[id] = data
		} else if last := f.stored[id]; last != nil && e.keepsLast(last) {
			all[id] = last
		}
	}
	return all, true
}

// flush writes the changes since the last write.
func (f *formatWriter) flush(ctx context.Context) error {
	changes := f.takeDirty()
	if len(changes) == 0 {
		return nil
	}
	sum, count := f.digestSum, len(f.stored)
	for id, data := range changes {
		if old, ok := f.stored[id]; ok {
			sum -= digestOf(id, old)
			count--
		}
		if data != nil {
			sum += digestOf(id, data)
			count++
		}
	}
	to := version{epoch: f.current.epoch, revision: f.current.revision + 1, digest: formatDigest(sum)}
	err := f.publish(ctx, &write{from: f.current, to: to, changes: changes, count: count})
	if err != nil {
		f.writer.mu.Lock()
		defer f.writer.mu.Unlock()
		for id := range changes {
			f.writer.dirty[f.slot][id] = struct{}{}
		}
	}
	return err
}

// takeDirty returns the changes from the stored plans to the desired ones; nil data deletes.
func (f *formatWriter) takeDirty() map[string][]byte {
	f.writer.mu.Lock()
	defer f.writer.mu.Unlock()
	dirty := f.writer.dirty[f.slot]
	changes := make(map[string][]byte, len(dirty))
	for id := range dirty {
		old, isStored := f.stored[id]
		e := f.writer.entries[id]
		var data []byte
		if e != nil {
			data = e.encoded(f.slot, f.scripts.format)
		}
		switch {
		case data == nil && isStored && (e == nil || !e.keepsLast(old)):
			changes[id] = nil
		case data == nil:
		case isStored && bytes.Equal(old, data):
			if e.forms[f.slot].revision == 0 {
				e.forms[f.slot].revision = f.current.revision
				delete(f.writer.withdrawn, id)
				notify(f.writer.changed)
			}
		default:
			changes[id] = data
		}
	}
	clear(dirty)
	return changes
}

// publish writes the batch and commits it once Redis confirmed it.
func (f *formatWriter) publish(ctx context.Context, w *write) error {
	timer := prometheus.NewTimer(f.writer.metrics.duration)
	if err := f.scripts.publish(ctx, f.leadership.term, f.leadership.holder, w); err != nil {
		// Redis may have run it: the reply may be lost, or a retry of the client was
		// rejected because the first attempt succeeded.
		f.unconfirmed = w
		return fmt.Errorf("write %d plans: %w", len(w.changes), err)
	}
	timer.ObserveDuration()
	f.writer.metrics.published.SetToCurrentTime()
	f.commit(w)
	return nil
}

// commit records a write that Redis has run.
func (f *formatWriter) commit(w *write) {
	if w.replaces() {
		f.stored, f.digestSum = make(map[string][]byte, len(w.changes)), 0
	}
	for id, data := range w.changes {
		if old, ok := f.stored[id]; ok {
			f.digestSum -= digestOf(id, old)
			delete(f.stored, id)
		}
		if data != nil {
			f.stored[id] = data
			f.digestSum += digestOf(id, data)
		}
	}
	f.current, f.unconfirmed, f.leadership.rolloutPolls = w.to, nil, maxRolloutPolls
	f.writer.mu.Lock()
	defer f.writer.mu.Unlock()
	f.writer.observed.epochs[f.slot] = f.current.epoch
	if w.replaces() {
		clear(f.writer.withdrawn)
	}
	for id := range w.changes {
		delete(f.writer.withdrawn, id)
		if e := f.writer.entries[id]; e != nil && bytes.Equal(e.forms[f.slot].data, f.stored[id]) {
			e.forms[f.slot].revision = w.to.revision
		}
	}
	notify(f.writer.changed)
}
