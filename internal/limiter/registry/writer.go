// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
)

// WriterOptions configure a Writer.
type WriterOptions struct {
	// Clock learns the time of Redis from every heartbeat; may be nil.
	Clock *redisclient.Clock
	// Installation is the one of the process, whose name must be known before Lead. Required.
	Installation *Installation
	// LeaseDuration is the time for which Lead waits for another leader of the installation
	// to end, before it returns ErrOwnedElsewhere from Err.
	LeaseDuration time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Budgets bound the plans.
	Budgets plan.Budgets
	// Unready returns the policies that are not Ready, for the heartbeats of the leader; nil
	// reports none.
	Unready func() plan.Unready
	// Registerer registers the metrics; nil does not export them.
	Registerer prometheus.Registerer
}

// Writer keeps the registry equal to the plans that the leader desires. It remembers them
// all, so it repairs the registry by itself whatever happens to Redis. It does nothing
// unless Lead runs. It is safe for concurrent use.
type Writer struct {
	scripts *scripts
	options WriterOptions
	metrics *writerMetrics

	wake    chan struct{} // wakes Lead to write
	changed chan struct{} // see Changes

	mu        sync.Mutex
	stopped   error                    // why Set fails; nil while Lead runs
	failing   error                    // why the last round could not reach Redis; nil after any other
	synced    bool                     // see MarkSynced
	inherited bool                     // entries include the records of the previous leader
	entries   map[string]*entry        // the desired records, by ID
	waiting   map[string]*waitingEntry // records without room, by ID
	wanted    []string                 // see Wanted
	usage     usage
	unjudged  usage // of the waiting records whose encoding is kept
	// withdrawn are the published plans, by ID, that entries does not contain any more, until the
	// registry has lost them too.
	withdrawn map[string]*entry
	dirty     map[string]struct{} // the IDs whose plan may differ from the registry
	holds     bool                // the registry holds the desired records, or all records of the previous leader
	batch     *batch              // calls that wait for the next write
	observed  observation
}

// batch is the set of calls that wait for the same write.
type batch struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

func (b *batch) finish(err error) {
	b.err = err
	close(b.done)
}

// NewWriter returns a Writer of the registry under prefix. The client may retry, because
// Redis rejects a repeated write. Its read timeout should be several seconds, because a new
// epoch writes all plans in one call.
func NewWriter(client redis.UniversalClient, prefix string, o WriterOptions) *Writer {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	w := &Writer{
		scripts: newScripts(client, prefix, o.Clock),
		options: o,
		metrics: newWriterMetrics(o.Registerer),
		wake:    make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
		stopped: ErrNotLeading,
		batch:   newBatch(),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(w)
	}
	return w
}

// Set makes the plan the desired plan of its ID and returns when the registry holds it.
// Calls that arrive during a write share the next one.
//
//   - A call whose ctx has ended records nothing. The plans of one leadership therefore never
//     end up in the next, provided that ctx ends before the next Lead.
//   - While the registry is lost and awaits MarkSynced, or another leader is ending, Set returns
//     nil before the plan is written. Changes and Rollout report when the registry holds it.
//   - After a round of Lead could not reach Redis, Set fails without waiting, until a round
//     succeeds.
//   - A plan without room in its budget waits for it: Set returns nil, the last plan stays, and
//     Rollout reports why. The Writer forgets it but for its name, UID and size; see Wanted.
//   - After an error the plan is still desired and Lead retries, unless ctx had ended before or
//     the error is ErrNotLeading, ErrDeposed, plan.ErrOlderGeneration or an encoding error.
func (w *Writer) Set(ctx context.Context, desired plan.Record, o plan.SetOptions) error {
	data, err := plan.Encode(desired)
	if err != nil {
		return err
	}
	id := desired.ID()
	b, err := w.setDesired(ctx, id, newEntry(desired, data), o)
	return ignoreRecorded(w.await(ctx, b, id, err))
}

// Delete removes the desired plan of the ID and returns when the registry no longer holds
// it. Before MarkSynced, and after errors, it behaves like Set.
func (w *Writer) Delete(ctx context.Context, id string) error {
	b, err := w.setDesired(ctx, id, nil, plan.SetOptions{})
	return ignoreRecorded(w.await(ctx, b, id, err))
}

// ignoreRecorded drops the errors of a registry that awaits MarkSynced or the end of another
// leader: the plan is recorded and will be written.
func ignoreRecorded(err error) error {
	if errors.Is(err, ErrEpochLost) || errors.Is(err, errLeaderAlive) {
		return nil
	}
	return err
}

// setDesired records the desired plan; a nil entry deletes it. It returns the batch to wait
// for, or nil if the registry is already right.
func (w *Writer) setDesired(ctx context.Context, id string, next *entry, o plan.SetOptions) (*batch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.rejects(ctx); err != nil {
		return nil, err
	}
	old := w.entries[id]
	if last := w.newest(id); !o.Restored && next.isOlderThan(last) {
		return nil, fmt.Errorf("generation %d after %d: %w", next.generation, last.generation, plan.ErrOlderGeneration)
	}
	w.forgetWaiting(id)
	if next != nil {
		next.keepEqual(old)
	}
	if w.mustWait(id, next, o) {
		if b := w.batchOf(id); b != nil {
			return b, w.failing
		}
		return nil, nil
	}
	isStored := w.isStored(old, next)
	w.replace(id, next)
	if isStored && !w.isDirty(id) {
		return nil, nil
	}
	w.markDirty(id)
	return w.batch, w.failing
}

// newest returns the entry that was set last, whether it has room or not; nil for none. The
// caller holds the lock.
func (w *Writer) newest(id string) *entry {
	if waits := w.waiting[id]; waits != nil {
		return waits.entry
	}
	return w.entries[id]
}

// rejects returns why a call is not recorded: Lead does not run, or ctx has ended. The caller
// holds the lock.
func (w *Writer) rejects(ctx context.Context) error {
	if w.stopped != nil {
		return w.stopped
	}
	return ctx.Err()
}

// replace makes next the desired entry; nil for none. The caller holds the lock.
func (w *Writer) replace(id string, next *entry) {
	if old := w.entries[id]; old.isPublished() && !next.isPublished() {
		w.withdrawn[id] = old
	}
	w.usage.replace(id, w.entries[id], next)
	if next == nil {
		delete(w.entries, id)
	} else {
		w.entries[id] = next
	}
}

// isDirty reports whether the plan may differ from the registry. The caller holds the lock.
func (w *Writer) isDirty(id string) bool {
	_, isDirty := w.dirty[id]
	return isDirty
}

// markDirty records that the plan may differ from the registry. The caller holds the lock.
func (w *Writer) markDirty(id string) { w.dirty[id] = struct{}{} }

// isStored reports whether the registry is known to hold the desired entry.
func (w *Writer) isStored(old, next *entry) bool {
	if !w.inherited || w.observed.err != nil {
		return false
	}
	return old == nil && next == nil || next.isPublished()
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

// MarkSynced reports that every policy was processed since Lead began: set, deleted, or left
// unchanged because it does not compile. Failed calls count, because the Writer remembers
// them. Only then may the Writer replace a lost registry: with only some of the plans it
// would remove the others. Until then Err returns ErrEpochLost for a lost registry. A call
// whose ctx has ended has no effect, as for Set.
func (w *Writer) MarkSynced(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rejects(ctx) == nil {
		w.synced = true
		notify(w.wake)
	}
}

// notify sends to a channel of capacity one unless it is full.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
