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
	// glance is how often the leader looks while replicas load what it has just
	// published, and glances how many times.
	rolloutPollInterval = 50 * time.Millisecond
	maxRolloutPolls     = 20

	// looks bounds how often the leader looks again, within one step, because what
	// it has seen is not there any more when it writes.
	maxAttempts = 3
)

// leadership is one run of Lead. Only its goroutine uses it.
type leaderLoop struct {
	*Writer
	holder string
	term   int64 // 0 while not taken

	current   version           // what the registry is, as far as we know
	stored    map[string][]byte // the plans of known
	digestSum uint64            // the digest of known
	inSync    bool              // known was so when we last looked or wrote

	// attempt is a write whose reply did not arrive.
	unconfirmed *write
	// answered is the server time at which a replica's distrust was last answered.
	lastRepublish int64

	failures     int
	rolloutPolls int
}

// Lead takes a term and keeps the registry as it is wanted until ctx ends, which
// is no error, or another leader has begun a term, which is ErrDeposed. It forgets
// what was wanted before, so the caller calls Set for every policy, then Synced. A
// caller that is deposed but still holds the lease may call Lead again.
//
// begun is called once Set works; nil is nobody.
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

// begin opens the Writer for Set and Delete.
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

// end answers who still waits.
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

// takeBatch returns who waits for the write that comes now.
func (l *leaderLoop) takeBatch() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.batch
	l.batch = newBatch()
	return b
}

// settle answers the batch and keeps the health of the registry, with one log
// line when it changes.
func (l *leaderLoop) finishRound(ctx context.Context, b *batch, err error) {
	if ctx.Err() != nil {
		err = ErrNotLeading
	}
	l.inSync = err == nil
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
		l.logger.Info("Registry is as wanted", "epoch", l.current.epoch, "revision", l.current.revision, "term", l.term)
	case ctx.Err() == nil:
		l.logger.Warn("Registry is not as wanted", "error", err)
	}
}

// kindOf is what makes a failure another one.
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

// nextLook says when to look again if that is before the period is over: to retry,
// or because replicas are about to load what was published.
func (l *leaderLoop) nextDelay(err error) (time.Duration, bool) {
	if err != nil {
		l.failures++
		return backoff(l.failures - 1), true
	}
	l.failures = 0
	l.rolloutPolls--
	return rolloutPollInterval, l.rolloutPolls >= 0 && l.lagging()
}

// lagging reports whether a live replica runs something older.
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

// step makes the registry as it is wanted.
func (l *leaderLoop) step(ctx context.Context, woken bool) error {
	// While all is well a write needs no look before: Redis refuses it if something
	// has changed.
	if woken && l.inSync {
		if err := l.flush(ctx); !errors.Is(err, errMoved) {
			return err
		}
	}
	for range maxAttempts {
		if err := l.observeAndConverge(ctx); !errors.Is(err, errMoved) {
			return err
		}
	}
	return errMoved
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
	case h.whole && l.unconfirmed != nil && h.version == l.unconfirmed.to:
		l.commit(l.unconfirmed) // it had arrived
	case h.whole && h.version == l.current:
	default:
		return l.startEpoch(ctx, &h, alive, "the registry is empty or has gone back")
	}
	l.unconfirmed = nil
	if l.rejectedByReplica(&h, alive) {
		// A leader that does not know all plans yet goes on for now.
		err := l.startEpoch(ctx, &h, alive, "a replica distrusts the registry")
		if !errors.Is(err, ErrEpochLost) {
			l.lastRepublish = h.now
			return err
		}
	}
	return l.flush(ctx)
}

// claim makes sure that the registry is ours and that we hold the term.
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
	// The first time, or the term was lost with the registry.
	taken, err := l.scripts.takeTerm(ctx, l.holder, l.term, h.epoch)
	if err != nil {
		return err
	}
	if taken.holder != l.holder {
		return errMoved
	}
	l.term, *h = taken.term, taken
	l.logger.Info("Took a term in the registry", "term", l.term, "epoch", h.epoch, "revision", h.revision)
	return nil
}

// inherit learns what a predecessor has published: it goes on as it is until
// somebody sets or deletes it.
func (l *leaderLoop) loadInherited(ctx context.Context, h *header) error {
	if l.hasInherited() {
		return nil
	}
	stored, sum := map[string][]byte{}, uint64(0)
	if h.whole && h.epoch.owner() == l.owner {
		read, _, plans, err := l.scripts.read(ctx, version{})
		if err != nil {
			return err
		}
		if read.version != h.version {
			return errMoved
		}
		for id, data := range plans {
			stored[id] = []byte(data)
			sum += digestOf(id, stored[id])
		}
	}
	if h.whole && formatDigest(sum) == h.digest {
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
