// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// WriterOptions configure a Writer.
type WriterOptions struct {
	// Owner names the installation. Its Writers and Watchers have the same,
	// those of every other installation have another. Required.
	Owner string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps them private.
	Registerer prometheus.Registerer
}

// Writer keeps the registry as its leader wants it. It remembers every plan
// it was given, so whatever happens to Redis, what is there becomes right again
// without the caller. It does nothing unless Lead runs.
type Writer struct {
	scripts scripts
	owner   string
	logger  *slog.Logger
	metrics *writerMetrics

	wake    chan struct{} // something is to be written
	changed chan struct{} // see Changes

	mu        sync.Mutex
	stopped   error               // why Set does not work, nil while Lead runs
	synced    bool                // see Synced
	inherited bool                // what the registry held at the start is in entries
	entries   map[string]*entry   // the plans there are to be, by id
	dirty     map[string]struct{} // ids that may differ from the registry
	batch     *batch              // who waits for the next write
	observed  observation
}

// entry is one plan as it is to be in the registry.
type entry struct {
	data       []byte
	plan       *plan.Plan // what data says; nil until somebody asks
	uid        string
	generation int64
	// inherited means that a predecessor published the plan and nobody has set it
	// since.
	inherited bool
	// revision is the revision at which data was in the registry, 0 if not yet.
	revision int64
}

// batch are the calls that are answered by the same write.
type batch struct {
	done chan struct{}
	err  error // to be read when done is closed
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

func (b *batch) finish(err error) {
	b.err = err
	close(b.done)
}

// NewWriter returns a Writer of the registry under prefix. The client may
// be one that retries: no write is done twice. Its read timeout should be some
// seconds, since a new epoch writes all plans in one call.
func NewWriter(client redis.UniversalClient, prefix string, o WriterOptions) *Writer {
	return &Writer{
		scripts: newScripts(client, prefix),
		owner:   o.Owner,
		logger:  cmp.Or(o.Logger, slog.Default()),
		metrics: newWriterMetrics(o.Registerer),
		wake:    make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
		stopped: ErrNotLeading,
		batch:   newBatch(),
	}
}

// Set makes the plan the wanted one of its id and returns when it is in the
// registry. Calls that come while a write is in flight share the next one.
//
// While the registry is empty or has gone back and awaits Synced, Set returns nil
// without having written the plan; Changes and Rollout report when it is there.
//
// After an error the plan is still wanted and Lead goes on trying, unless the
// error is ErrNotLeading, ErrDeposed, ErrOlderGeneration or says that the plan
// cannot be encoded.
func (w *Writer) Set(ctx context.Context, wanted *plan.Plan) error {
	data, err := plan.Encode(wanted)
	if err != nil {
		return err
	}
	id := wanted.ID()
	b, err := w.setWanted(id, &entry{data: data, plan: wanted, uid: wanted.UID, generation: wanted.Generation})
	return ignoreEpochLost(w.await(ctx, b, id, err))
}

// Delete makes the plan unwanted and returns when it is not in the registry.
// Before Synced, and on errors, it behaves as Set does.
func (w *Writer) Delete(ctx context.Context, id string) error {
	b, err := w.setWanted(id, nil)
	return ignoreEpochLost(w.await(ctx, b, id, err))
}

// ignoreEpochLost drops the error of a registry that awaits Synced: the wanted
// plan is recorded and will be written.
func ignoreEpochLost(err error) error {
	if errors.Is(err, ErrEpochLost) {
		return nil
	}
	return err
}

// want records what is wanted; a nil entry deletes. It returns the batch to wait
// for, or nil if the registry is so already.
func (w *Writer) setWanted(id string, next *entry) (*batch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped != nil {
		return nil, w.stopped
	}
	old := w.entries[id]
	if next != nil && old != nil && old.uid == next.uid && next.generation < old.generation {
		return nil, fmt.Errorf("generation %d after %d: %w", next.generation, old.generation, ErrOlderGeneration)
	}
	if next == nil {
		delete(w.entries, id)
	} else {
		if old != nil && bytes.Equal(old.data, next.data) {
			next.revision = old.revision
			next.plan = cmp.Or(old.plan, next.plan) // the same object as long as it is the same
		}
		w.entries[id] = next
	}
	if w.isStored(old, next) {
		if _, isDirty := w.dirty[id]; !isDirty {
			return nil, nil
		}
	}
	w.dirty[id] = struct{}{}
	return w.batch, nil
}

// isStored reports whether it is certain, without asking, that what is wanted next
// is in the registry.
func (w *Writer) isStored(old, next *entry) bool {
	if !w.inherited || w.observed.err != nil {
		return false
	}
	return old == nil && next == nil || next != nil && next.revision > 0
}

// await waits until the batch is written.
func (w *Writer) await(ctx context.Context, b *batch, id string, err error) error {
	if err == nil && b != nil {
		notify(w.wake)
		select {
		case <-b.done:
			err = b.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("publish plan %s: %w", id, err)
	}
	return nil
}

// Synced says that Set was called for every policy that compiles since Lead
// began. Only from then on may a registry that is empty or has gone back be
// replaced: a leader that knew a part of the plans would withdraw the others.
// Until then Err returns ErrEpochLost if that is the case.
func (w *Writer) Synced() {
	w.mu.Lock()
	w.synced = true
	w.mu.Unlock()
	notify(w.wake)
}

// Sweep removes the plans that a predecessor left behind, that were not set
// since Lead began and are not live.
func (w *Writer) Sweep(ctx context.Context, live func(id string) bool) error {
	orphans, b, err := w.orphans(live)
	if err != nil || len(orphans) == 0 {
		return err
	}
	if err := w.await(ctx, b, orphans[0], nil); err != nil {
		return fmt.Errorf("sweep %d plans: %w", len(orphans), err)
	}
	w.metrics.orphans.Add(float64(len(orphans)))
	return nil
}

// orphans makes the plans nobody wants unwanted.
func (w *Writer) orphans(live func(id string) bool) ([]string, *batch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped != nil:
		return nil, nil, w.stopped
	case !w.inherited:
		return nil, nil, fmt.Errorf("sweep: registry not read yet: %w", cmp.Or(w.observed.err, ErrEpochLost))
	}
	var ids []string
	for id, e := range w.entries {
		if e.inherited && !live(id) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		delete(w.entries, id)
		w.dirty[id] = struct{}{}
	}
	slices.Sort(ids)
	return ids, w.batch, nil
}

// notify wakes who waits on a channel of capacity one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
