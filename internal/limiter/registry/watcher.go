// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// WatcherOptions configure a Watcher.
type WatcherOptions struct {
	// Owner is the name of the installation, as in WriterOptions. Required.
	Owner string
	// Replica is the name of this replica, unique in the installation and without a slash.
	// Required.
	Replica string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registerer registers the metrics; nil does not export them.
	Registerer prometheus.Registerer
}

// Watcher keeps the snapshot of one replica equal to the registry. It never replaces a
// loaded version with an older one.
type Watcher struct {
	scripts scripts
	options WatcherOptions
	logger  *slog.Logger
	metrics *watcherMetrics
	alive   atomic.Pointer[[]Replica]

	live liveReplicas // recorded only by the goroutine of Start

	// Used only by the goroutine of Start.
	applySnapshot func(*plan.Snapshot)
	loaded        *loaded // nil before the first load
	rejected      version // reported to the leader as wrong; the loaded one after a digest mismatch
	state         followState
	skips         int      // plans that cannot be decoded
	skipped       []string // some of their IDs
}

// NewWatcher returns a Watcher of the registry under prefix. The read timeout of the client
// should be several seconds, because a load reads all plans in one reply.
func NewWatcher(client redis.UniversalClient, prefix string, o WatcherOptions) *Watcher {
	return &Watcher{
		scripts: newScripts(client, prefix),
		options: o,
		logger:  cmp.Or(o.Logger, slog.Default()),
		metrics: newWatcherMetrics(o.Registerer),
	}
}

// Replicas returns the live replicas as of the last heartbeat, sorted by name.
func (w *Watcher) Replicas() []Replica {
	if replicas := w.alive.Load(); replicas != nil {
		return *replicas
	}
	return nil
}

// Start follows the registry until ctx ends and passes every new snapshot to apply, one at a
// time. A snapshot takes effect when apply returns, so apply must be fast. While Redis is
// unreachable the Watcher retries.
func (w *Watcher) Start(ctx context.Context, apply func(*plan.Snapshot)) error {
	w.applySnapshot = apply
	// Subscribe before the first read: a change is either read or announced, never lost
	// in between.
	subscription := w.scripts.client.Subscribe(ctx, w.scripts.channel())
	defer func() { _ = subscription.Close() }()
	defer w.leave(ctx)
	messages := subscription.ChannelWithSubscriptions()
	every := time.NewTicker(period)
	defer every.Stop()
	soon := time.NewTimer(0)
	defer soon.Stop()
	for failures := 0; ; {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-messages:
			if !open {
				messages = nil // the client was closed; the ticker continues
			}
			drain(messages)
			err = w.load(ctx)
		case <-every.C:
			err = w.poll(ctx)
		case <-soon.C:
			err = w.poll(ctx)
		}
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() == nil {
			w.setState(unreachable, err)
		}
		soon.Reset(backoff(failures))
		failures++
	}
}

// drain discards queued messages: one load covers them all.
func drain(messages <-chan any) {
	for {
		select {
		case _, open := <-messages:
			if !open {
				return
			}
		default:
			return
		}
	}
}

// poll sends a heartbeat, compares the registry with the loaded version and loads a newer
// one.
func (w *Watcher) poll(ctx context.Context) error {
	h, err := w.heartbeat(ctx)
	if err != nil {
		return err
	}
	w.metrics.lag.Set(0)
	if w.loaded != nil {
		w.metrics.lag.Set(float64(max(0, h.revision-w.loaded.revision)))
	}
	switch now := w.loaded.compare(&h, w.options.Owner); {
	case now != following:
		if w.markRejected(&h, now) {
			_, err = w.heartbeat(ctx) // report it to the leader at once
		}
		return err
	case h.version == w.rejected:
		w.setState(otherPlans, nil) // rejected before and unchanged
		return nil
	case w.loaded != nil && w.loaded.version == h.version:
		w.rejected = version{}
		w.setState(following, nil)
		return nil
	}
	return w.load(ctx)
}

// load reads the missing changes and uses them.
func (w *Watcher) load(ctx context.Context) error {
	var mine version
	if w.loaded != nil {
		mine = w.loaded.version
	}
	h, what, fields, err := w.scripts.read(ctx, mine)
	if err != nil {
		return err
	}
	applyTimer := prometheus.NewTimer(nil)
	if w.loaded.compare(&h, w.options.Owner) != following || what == readNothing || h.version == w.rejected {
		return nil // the next poll reports it
	}
	next, bad := w.loaded.next(&h, fields, what == readAll)
	if len(bad) > 0 {
		w.metrics.bad.Add(float64(len(bad)))
		w.logger.Error("Skipped plans that cannot be decoded", "plans", len(bad), "first", bad[0])
	}
	// Within an epoch, a wrong digest means another history: reject it. In a new epoch the
	// plans are still better than those of the old one.
	if !next.matchesDigest() && w.loaded != nil && w.loaded.epoch == h.epoch {
		w.markRejected(&h, otherPlans)
	} else {
		w.use(next, &h, applyTimer)
	}
	_, err = w.heartbeat(ctx)
	return err
}

// use replaces the loaded version and the snapshot.
func (w *Watcher) use(next *loaded, h *header, applyTimer *prometheus.Timer) {
	first := w.loaded == nil
	w.loaded, w.rejected = next, version{}
	w.skips, w.skipped = next.skipped()
	w.applySnapshot(next.snapshot())
	w.metrics.revision.Set(float64(next.revision))
	w.metrics.lag.Set(0)
	if !first {
		// Server time from publication to the read, plus local time since then.
		w.metrics.apply.Observe(float64(h.now-h.published)/1e6 + applyTimer.ObserveDuration().Seconds())
	}
	if next.matchesDigest() {
		w.setState(following, nil)
		return
	}
	w.markRejected(h, otherPlans) // in use, but reported to the leader
}

// markRejected records the version as rejected, which the next heartbeat reports to the
// leader. It returns whether that is new.
func (w *Watcher) markRejected(h *header, why followState) bool {
	changed := w.rejected != h.version || w.state != why
	w.rejected = h.version
	w.setState(why, nil)
	return changed
}

const unreachable followState = "redis cannot be reached"

// setState stores whether the replica follows the registry and logs a change.
func (w *Watcher) setState(now followState, err error) {
	if now == following && w.loaded != nil {
		w.metrics.following.Set(1)
	} else {
		w.metrics.following.Set(0)
	}
	if w.state == now {
		return
	}
	w.state = now
	if now == following {
		w.logger.Info("Following the registry", "epoch", w.loaded.epoch, "revision", w.loaded.revision)
		return
	}
	w.logger.Warn("Not following the registry", "reason", string(now), "error", err, "loaded", w.loaded != nil)
}

// heartbeat reports the version that the replica runs and returns the state of the registry.
// A replica that has loaded nothing is not reported.
func (w *Watcher) heartbeat(ctx context.Context) (header, error) {
	var r *report
	if w.loaded != nil {
		r = &report{
			Epoch: w.loaded.epoch, Revision: w.loaded.revision, Rejects: w.rejected.epoch,
			Skips: w.skips, Skipped: w.skipped,
		}
	}
	h, alive, err := w.scripts.heartbeat(ctx, w.options.Owner, w.options.Replica, r)
	if err != nil {
		return h, err
	}
	replicas := replicasAmong(alive, w.options.Owner)
	w.alive.Store(&replicas)
	w.live.record(time.Now(), len(replicas)) //nolint:forbidigo // the age of heartbeats
	w.metrics.replicas.Set(float64(len(replicas)))
	return h, nil
}

// leave removes the replica from the live replicas.
func (w *Watcher) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, _, err := w.scripts.heartbeat(ctx, w.options.Owner, w.options.Replica, nil)
	if err != nil && !errors.Is(err, redis.ErrClosed) {
		w.logger.Info("Failed to remove the heartbeat; it expires by itself", "error", err)
	}
}
