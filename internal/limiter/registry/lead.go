// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

const (
	// After a write the leader observes the registry every rolloutPollInterval, at most
	// maxRolloutPolls times, so that Rollout follows the replicas closely.
	rolloutPollInterval = 50 * time.Millisecond
	maxRolloutPolls     = 20

	// maxAttempts bounds the attempts within one step when the registry changes between
	// observing and writing.
	maxAttempts = 3
)

// leaderLoop is the state of one run of Lead. Only its goroutine uses it.
type leaderLoop struct {
	*Writer
	holder string
	term   int64 // 0 while not taken

	current     version           // last known version of the registry
	stored      map[string][]byte // plans of current
	digestSum   uint64            // digest of current
	lastRoundOK bool              // the last round confirmed current

	// unconfirmed is a failed write that Redis may have run; see publish.
	unconfirmed *write
	// lastRepublish is the server time, in microseconds, of the last epoch begun because
	// a replica rejected the previous one.
	lastRepublish int64

	failures     int // rounds in a row that failed
	rolloutPolls int // polls left after the last write
}

// Lead takes a term and keeps the registry equal to the desired plans. It returns nil when
// ctx ends, and ErrDeposed when another leader has begun a later term.
//
//   - It forgets all desired plans, so the caller must call Set for every policy, then MarkSynced.
//   - It calls begun, unless nil, once Set works.
//   - A deposed caller that still holds the lease may call Lead again.
func (w *Writer) Lead(ctx context.Context, begun func()) error {
	if err := w.open(); err != nil {
		return err
	}
	if begun != nil {
		begun()
	}
	l := &leaderLoop{Writer: w, holder: rand.Text(), stored: map[string][]byte{}}
	err := l.run(ctx)
	w.shut(err)
	return err
}

// open makes Set and Delete work.
func (w *Writer) open() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped == nil {
		return errors.New("lead: already leading")
	}
	w.stopped, w.synced, w.inherited = nil, false, false
	w.entries, w.dirty = map[string]*entry{}, map[string]struct{}{}
	w.observed = observation{err: errNotObserved}
	return nil
}

// shut makes Set and Delete fail, and ends the calls that wait.
func (w *Writer) shut(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = ErrNotLeading
	if err != nil {
		w.stopped = err
	}
	w.batch.finish(w.stopped)
	w.batch = newBatch()
	notify(w.changed)
}

func (l *leaderLoop) run(ctx context.Context) error {
	every := time.NewTicker(period)
	defer every.Stop()
	soon := time.NewTimer(0)
	defer soon.Stop()
	for {
		woken := false
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
			woken = true
		case <-every.C:
		case <-soon.C:
		}
		b := l.takeBatch()
		err := l.step(ctx, woken)
		l.finishRound(ctx, b, err)
		if errors.Is(err, ErrDeposed) {
			return ErrDeposed
		}
		if wait, ok := l.nextDelay(err); ok {
			soon.Reset(wait)
		}
	}
}

// takeBatch returns the calls that wait for the coming write and starts a new batch.
func (l *leaderLoop) takeBatch() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.batch
	l.batch = newBatch()
	return b
}

// finishRound ends the batch with err, stores the error and logs a change of its kind.
func (l *leaderLoop) finishRound(ctx context.Context, b *batch, err error) {
	if ctx.Err() != nil {
		err = ErrNotLeading
	}
	l.lastRoundOK = err == nil
	l.mu.Lock()
	before := l.observed.err
	l.observed.err, l.observed.epoch = err, l.current.epoch
	l.mu.Unlock()
	b.finish(err)
	if errorKind(before) == errorKind(err) {
		return
	}
	notify(l.changed)
	switch {
	case err == nil:
		l.logger.Info("Registry in sync", "epoch", l.current.epoch, "revision", l.current.revision, "term", l.term)
	case ctx.Err() == nil:
		l.logger.Warn("Registry out of sync", "error", err)
	}
}

// errorKind groups errors, so that only a change of the kind is logged.
func errorKind(err error) string {
	for _, kind := range []error{errNotObserved, ErrDeposed, ErrOwnedElsewhere, ErrEpochLost, ErrNotLeading} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if err != nil {
		return "unreachable"
	}
	return ""
}

// nextDelay returns the delay of the next round if it should start before the period ends: to
// retry, or to watch replicas load a write.
func (l *leaderLoop) nextDelay(err error) (time.Duration, bool) {
	if err != nil {
		l.failures++
		return backoff(l.failures - 1), true
	}
	l.failures = 0
	l.rolloutPolls--
	return rolloutPollInterval, l.rolloutPolls >= 0 && l.lagging()
}

// lagging reports whether a live replica runs an earlier version.
func (l *leaderLoop) lagging() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.observed.replicas {
		if r.Epoch != string(l.current.epoch) || r.Revision < l.current.revision {
			return true
		}
	}
	return false
}

// step makes the registry equal to the desired plans.
func (l *leaderLoop) step(ctx context.Context, woken bool) error {
	// In sync, write without observing first: Redis rejects the write if the registry has
	// changed.
	if woken && l.lastRoundOK {
		if err := l.flush(ctx); !errors.Is(err, errConflict) {
			return err
		}
	}
	for range maxAttempts {
		if err := l.observeAndConverge(ctx); !errors.Is(err, errConflict) {
			return err
		}
	}
	return errConflict
}

func (l *leaderLoop) observeAndConverge(ctx context.Context) error {
	h, alive, err := l.scripts.heartbeat(ctx, l.owner, "", &report{})
	if err != nil {
		return err
	}
	l.recordReplicas(alive)
	if err := l.claimTerm(ctx, &h, alive); err != nil {
		return err
	}
	if err := l.loadInherited(ctx, &h); err != nil {
		return err
	}
	switch {
	case h.complete && l.unconfirmed != nil && h.version == l.unconfirmed.to:
		l.commit(l.unconfirmed) // Redis had run it
	case h.complete && h.version == l.current:
	default:
		return l.startEpoch(ctx, &h, alive, "registry lost or restored from an earlier state")
	}
	l.unconfirmed = nil
	if l.mustRepublish(&h, alive) {
		// Before MarkSynced the leader cannot begin an epoch, so it continues with this one.
		err := l.startEpoch(ctx, &h, alive, "rejected by a replica")
		if !errors.Is(err, ErrEpochLost) {
			l.lastRepublish = h.now
			return err
		}
	}
	return l.flush(ctx)
}

// claimTerm checks that this installation owns the registry and that this leader holds the
// term, and takes a term if it has none.
func (l *leaderLoop) claimTerm(ctx context.Context, h *header, alive []report) error {
	holds := h.term == l.term && h.holder == l.holder
	if h.epoch != "" && h.epoch.owner() != l.owner {
		for _, other := range alive {
			if other.Owner == h.epoch.owner() {
				return fmt.Errorf("%w: %q", ErrOwnedElsewhere, other.Owner)
			}
		}
	} else if l.term != 0 && h.term >= l.term && !holds {
		return ErrDeposed
	}
	if holds {
		return nil
	}
	// This leader has no term yet, or the term was lost with the registry.
	taken, err := l.scripts.takeTerm(ctx, l.holder, l.term, h.epoch)
	if err != nil {
		return err
	}
	if taken.holder != l.holder {
		return errConflict
	}
	l.term, *h = taken.term, taken
	l.logger.Info("Took a term in the registry", "term", l.term, "epoch", h.epoch, "revision", h.revision)
	return nil
}

// loadInherited reads the plans of the previous leader once. They stay desired until they are
// set or deleted.
func (l *leaderLoop) loadInherited(ctx context.Context, h *header) error {
	if l.hasInherited() {
		return nil
	}
	stored, sum := map[string][]byte{}, uint64(0)
	if h.complete && h.epoch.owner() == l.owner {
		read, _, plans, err := l.scripts.read(ctx, version{})
		if err != nil {
			return err
		}
		if read.version != h.version {
			return errConflict
		}
		for id, data := range plans {
			stored[id] = []byte(data)
			sum += digestOf(id, stored[id])
		}
	}
	if h.complete && formatDigest(sum) == h.digest {
		l.current, l.stored, l.digestSum = h.version, stored, sum
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inherited = true
	for id, data := range stored {
		_, isDirty := l.dirty[id]
		if l.entries[id] == nil && !isDirty {
			l.entries[id] = &entry{data: data, inherited: true, revision: l.current.revision}
		}
	}
	return nil
}

func (l *leaderLoop) hasInherited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inherited
}
