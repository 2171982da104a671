// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
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
	writer *Writer

	holder       string
	term         int64 // 0 while not taken
	rolloutPolls int   // polls left after the last write

	current   version           // last known version
	stored    map[string][]byte // plans of current
	digestSum uint64            // digest of current
	// unconfirmed is a failed write that Redis may have run; see publish.
	unconfirmed *write
	// lastRepublish is the server time, in microseconds, of the last epoch begun because
	// a replica rejected the previous one.
	lastRepublish int64

	lastRoundOK bool          // the last round confirmed the registry
	notReady    *plan.Unready // see listUnready

	// waitsSince is the server time, in microseconds, since which another leader of this
	// installation keeps this one from taking a term; 0 while none does.
	waitsSince int64

	failures int // rounds in a row that failed
}

// Lead takes a term and keeps the registry equal to the desired plans. It returns nil when
// ctx ends, and ErrDeposed when another leader has begun a later term.
//
//   - It forgets all desired plans, so the caller must call Set for every policy, then MarkSynced.
//   - It calls opened, unless nil, once Set works.
//   - A deposed caller that still holds the lease may call Lead again.
func (w *Writer) Lead(ctx context.Context, opened func()) error {
	if err := w.open(); err != nil {
		return err
	}
	if opened != nil {
		opened()
	}
	l := &leaderLoop{writer: w, holder: rand.Text(), stored: map[string][]byte{}}
	err := l.run(ctx)
	w.shut(err)
	if l.term != 0 {
		// The next leader takes no term while this one is reported as alive.
		w.scripts.leaveAtEnd(ctx, l.ownHeartbeat(), w.options.Logger)
	}
	return err
}

// ownHeartbeat returns the heartbeat of the leader.
func (l *leaderLoop) ownHeartbeat() *heartbeat {
	return &heartbeat{
		Owner: l.writer.options.Installation.Name(), Kind: kindLeader, Name: l.holder,
		Accepts: l.writer.options.Installation.names(), Unready: l.notReady,
	}
}

// listUnready renews what the heartbeats report. It looks at every policy, so it is called once a
// period and not for each heartbeat of a rollout.
func (l *leaderLoop) listUnready() {
	if l.writer.options.Unready != nil {
		list := l.writer.options.Unready()
		l.notReady = &list
	}
}

// open makes Set and Delete work.
func (w *Writer) open() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped == nil {
		return errors.New("lead: already leading")
	}
	w.stopped, w.failing, w.synced, w.inherited = nil, nil, false, false
	w.entries, w.withdrawn, w.dirty, w.holds = map[string]*entry{}, map[string]*entry{}, map[string]struct{}{}, false
	w.waiting, w.wanted, w.usage, w.unjudged = map[string]*waitingEntry{}, nil, newUsage(), newUsage()
	w.observed = observation{err: errNotObserved}
	return nil
}

// shut makes Set and Delete fail, and ends the calls that wait.
func (w *Writer) shut(err error) {
	w.metrics.leading.Set(0)
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
	l.listUnready()
	for {
		woken := false
		select {
		case <-ctx.Done():
			return nil
		case <-l.writer.wake:
			woken = true
		case <-every.C:
			l.listUnready()
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
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	b := l.writer.batch
	l.writer.batch = newBatch()
	return b
}

// finishRound ends the batch with err, stores the error and logs a change of its kind. If Redis
// was not reached, calls fail from now on: those that wait for the next round would wait for its
// timeout.
func (l *leaderLoop) finishRound(ctx context.Context, b *batch, err error) {
	if ctx.Err() != nil {
		err = ErrNotLeading
	}
	l.lastRoundOK = err == nil
	l.writer.mu.Lock()
	before := l.writer.observed.err
	l.writer.observed.err, l.writer.failing = err, nil
	if errorKind(err) == kindUnreachable {
		l.writer.failing = err
		l.writer.batch.finish(err)
		l.writer.batch = newBatch()
	}
	l.writer.mu.Unlock()
	b.finish(err)
	if errorKind(before) == errorKind(err) {
		return
	}
	notify(l.writer.changed)
	switch {
	case err == nil:
		l.writer.options.Logger.Info("Registry in sync", "epoch", l.current.epoch, "revision", l.current.revision, "term", l.term)
	case ctx.Err() == nil:
		l.writer.options.Logger.Warn("Registry out of sync", "error", err)
	}
}

// kindUnreachable is the kind of an error that leaves the state of the registry unknown.
const kindUnreachable = "unreachable"

// errorKind groups errors, so that only a change of the kind is logged.
func errorKind(err error) string {
	for _, kind := range []error{errNotObserved, errLeaderAlive, errLaterLayout, ErrDeposed, ErrOwnedElsewhere, ErrEpochLost, ErrNotLeading} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if err != nil {
		return kindUnreachable
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
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	return slices.ContainsFunc(l.writer.observed.replicas, func(r Replica) bool {
		return r.Epoch != string(l.current.epoch) || r.Revision < l.current.revision
	})
}

// step makes the registry equal to the desired plans.
func (l *leaderLoop) step(ctx context.Context, woken bool) error {
	// In sync, write without observing first: Redis rejects the write if the registry has
	// changed.
	if woken && l.lastRoundOK {
		l.writer.admitWaiting()
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
	var r *heartbeat
	if l.term != 0 {
		r = l.ownHeartbeat() // a leader without a term must not keep others from taking it
	}
	h, _, err := l.writer.scripts.heartbeat(ctx, r)
	if err != nil {
		return err
	}
	alive, err := l.writer.scripts.alive(ctx, h.now)
	if err != nil {
		return err
	}
	l.writer.recordReplicas(alive)
	if err := l.claimTerm(ctx, &h, alive); err != nil {
		return err
	}
	if err := l.inheritRecords(ctx); err != nil {
		return err
	}
	l.writer.admitWaiting()
	if err := l.converge(ctx, &h, alive); err != nil {
		return err
	}
	l.writer.recordHolds()
	return nil
}

// recordHolds records that the registry holds the desired records.
func (w *Writer) recordHolds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.holds {
		w.holds = true
		notify(w.changed)
	}
}

// claimTerm checks that no other installation owns the registry and that this leader holds
// the term, and takes a term if it has none.
func (l *leaderLoop) claimTerm(ctx context.Context, h *header, alive []heartbeat) error {
	if h.layout > layout {
		return errLaterLayout
	}
	if h.term == l.term && h.holder == l.holder {
		return nil
	}
	if h.owner != "" && !l.writer.options.Installation.accepts(h.owner) {
		if slices.ContainsFunc(alive, func(r heartbeat) bool { return r.Owner == h.owner }) {
			return fmt.Errorf("%w: %q", ErrOwnedElsewhere, h.owner)
		}
	} else if l.term != 0 && h.term >= l.term {
		return ErrDeposed
	}
	if err := l.awaitOtherLeader(h, alive); err != nil {
		return err
	}
	// This leader has no term yet, or the term was lost with the registry.
	taken, err := l.writer.scripts.takeTerm(ctx, l.ownHeartbeat(), l.term, h, l.writer.options.Installation.names())
	if err != nil {
		return err
	}
	if taken.holder != l.holder {
		return errConflict
	}
	l.term, *h = taken.term, taken
	l.writer.metrics.leading.Set(1)
	l.writer.metrics.term.Set(float64(l.term))
	l.writer.options.Logger.Info("Took a term in the registry", "term", l.term, "epoch", h.epoch, "revision", h.revision)
	return nil
}

// awaitOtherLeader returns an error while another leader of this installation is alive. The
// Lease allows one; a second one that stays alive belongs to a copy of the cluster.
func (l *leaderLoop) awaitOtherLeader(h *header, alive []heartbeat) error {
	other := slices.IndexFunc(alive, func(r heartbeat) bool {
		return r.Kind == kindLeader && r.Name != l.holder && l.writer.options.Installation.accepts(r.Owner)
	})
	if other < 0 {
		l.waitsSince = 0
		return nil
	}
	if l.waitsSince == 0 {
		l.waitsSince = h.now
	}
	if time.Duration(h.now-l.waitsSince)*time.Microsecond < l.writer.options.LeaseDuration {
		return errLeaderAlive
	}
	return fmt.Errorf("%w: leader %s of %q is alive", ErrOwnedElsewhere, alive[other].Name, alive[other].Owner)
}
