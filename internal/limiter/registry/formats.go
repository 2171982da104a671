// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// obsoleteAfter is the time after which a format that no live process needs is deleted.
const obsoleteAfter = 30 * time.Second

// chooseFormats begins to maintain each format that is the newest for a live process of the
// installation, and ends to maintain one that none has needed for obsoleteAfter. This
// release's own format is always needed: its leader announces it.
func (l *leaderLoop) chooseFormats(h *header, alive []heartbeat) {
	l.recordNeeds(h, alive)
	l.formats = slices.DeleteFunc(l.formats, func(f *formatWriter) bool { return l.neededAt[f.scripts.format] == 0 })
	for slot, f := range l.writer.supported {
		if l.neededAt[f] != 0 && !slices.ContainsFunc(l.formats, func(w *formatWriter) bool { return w.slot == slot }) {
			l.formats = append(l.formats, &formatWriter{
				writer: l.writer, leadership: l.leadership, slot: slot, scripts: l.writer.scripts[slot], stored: map[string][]byte{},
			})
			l.writer.logger.Info("Maintaining a format of the registry", "format", f)
		}
	}
	slices.SortFunc(l.formats, func(a, b *formatWriter) int { return a.slot - b.slot })
}

// recordNeeds records which formats are needed now, and forgets those that have not been for
// obsoleteAfter.
func (l *leaderLoop) recordNeeds(h *header, alive []heartbeat) {
	if gap := h.now - l.observedAt; l.observedAt != 0 && gap > lifetime.Microseconds() {
		// Reports of live processes may have expired while Redis did not answer.
		for f := range l.neededAt {
			l.neededAt[f] += gap
		}
	}
	l.observedAt = h.now
	l.neededAt[l.writer.supported[0]] = h.now
	for i := range alive {
		if r := &alive[i]; r.Owner == "" || l.writer.installation.accepts(r.Owner) {
			if f := newest(l.writer.supported, r.Formats); f != 0 {
				l.neededAt[f] = h.now
			}
		}
	}
	for f, stored := range h.formats {
		// The leader before may have maintained it for a process that is just starting or ending.
		if _, seen := l.neededAt[f]; !seen && (stored.Maintained || !slices.Contains(l.writer.supported, f)) {
			l.neededAt[f] = h.now
		}
	}
	maps.DeleteFunc(l.neededAt, func(_ format, at int64) bool { return h.now-at > l.writer.obsoleteAfter.Microseconds() })
}

// recordFormats records the maintained formats for the replicas, and deletes the keys of
// those that no process has needed for obsoleteAfter.
func (l *leaderLoop) recordFormats(ctx context.Context, h *header) error {
	next, obsolete := storedFormats{}, []string(nil)
	for f, stored := range h.formats {
		if l.neededAt[f] == 0 {
			l.writer.logger.Info("Deleting a format of the registry that no process needs", "format", f)
			obsolete = append(obsolete, l.writer.ownKeys(stored.Keys)...)
			continue
		}
		next[f] = storedFormat{Keys: stored.Keys} // not maintained, unless set below
	}
	for _, f := range l.formats {
		next[f.scripts.format] = storedFormat{Keys: f.scripts.keys[:formatKeys], Maintained: f.complete}
	}
	l.recordHolding()
	if maps.EqualFunc(next, h.formats, func(a, b storedFormat) bool {
		return a.Maintained == b.Maintained && slices.Equal(a.Keys, b.Keys)
	}) {
		return nil
	}
	return l.writer.scripts[0].setFormats(ctx, l.leadership.term, l.leadership.holder, next, obsolete)
}

// ownKeys returns the keys that belong to this registry: a damaged record must not
// delete others.
func (w *Writer) ownKeys(keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return !strings.HasPrefix(key, w.prefix) || !strings.Contains(key, "{registry}") ||
			slices.Contains(w.scripts[0].keys[formatKeys:], key)
	})
}

// recordHolding stores which of the supported formats hold the registry.
func (l *leaderLoop) recordHolding() {
	holding := make([]bool, len(l.writer.supported))
	for _, f := range l.formats {
		holding[f.slot] = f.complete
	}
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	if slices.Equal(l.writer.holding, holding) {
		return
	}
	l.writer.holding = holding
	notify(l.writer.changed)
}
