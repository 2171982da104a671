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
	// Owner names the installation, as in WriterOptions. Required.
	Owner string
	// Replica names this replica among those of the installation, without a slash.
	// Required.
	Replica string
	// Use takes every new snapshot, one at a time. It is part of the time a change
	// needs to take effect. Required.
	Use func(*plan.Snapshot)
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps them private.
	Registerer prometheus.Registerer
}

// Watcher keeps the snapshot of one replica as the registry is. What it has once
// loaded it never takes back but for something newer.
type Watcher struct {
	scripts scripts
	options WatcherOptions
	logger  *slog.Logger
	metrics *watcherMetrics
	alive   atomic.Pointer[[]Replica]

	// Only the goroutine of Start uses these.
	loaded   *loaded // nil until something is loaded
	rejected version // what was read and refused
	health   health
	skips    int
	named    []string
}

// NewWatcher returns a Watcher of the registry under prefix. The client's read
// timeout should be some seconds: a load reads all plans in one reply.
func NewWatcher(client redis.UniversalClient, prefix string, o WatcherOptions) *Watcher {
	return &Watcher{
		scripts: newScripts(client, prefix),
		options: o,
		logger:  cmp.Or(o.Logger, slog.Default()),
		metrics: newWatcherMetrics(o.Registerer),
	}
}

// Replicas returns the replicas that were alive when this one last looked, by
// name.
func (w *Watcher) Replicas() []Replica {
	if replicas := w.alive.Load(); replicas != nil {
		return *replicas
	}
	return nil
}

// Start follows the registry until ctx ends. It never gives up: while Redis is
// away it keeps the snapshot and tries again.
func (w *Watcher) Start(ctx context.Context) error {
	// Whatever the loop below reads is read after the subscription stands or is
	// followed by the message that it does: nothing falls between.
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
				messages = nil // somebody closed the client; the ticker goes on
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
			w.setHealth(unreachable, err)
		}
		soon.Reset(backoff(failures))
		failures++
	}
}

// drain takes the messages that say the same as the one just received.
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

// look compares the registry with what is held and loads what is new.
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
		if w.reject(&h, now) {
			_, err = w.heartbeat(ctx) // the leader is to know at once
		}
		return err
	case h.version == w.rejected:
		w.setHealth(otherPlans, nil) // read before, and nothing has changed
		return nil
	case w.loaded != nil && w.loaded.version == h.version:
		w.rejected = version{}
		w.setHealth(following, nil)
		return nil
	}
	return w.load(ctx)
}

// pull reads what is lacking and uses it.
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
		return nil // the next look says what it is
	}
	next, bad := w.loaded.next(&h, fields, what == readAll)
	if len(bad) > 0 {
		w.metrics.bad.Add(float64(len(bad)))
		w.logger.Error("Skipped plans that cannot be read", "plans", len(bad), "first", bad[0])
	}
	// Within an epoch, plans that are not those that were written belong to
	// another history. In a new one they are better than those of the old.
	if !next.matchesDigest() && w.loaded != nil && w.loaded.epoch == h.epoch {
		w.reject(&h, otherPlans)
	} else {
		w.use(next, &h, applyTimer)
	}
	_, err = w.heartbeat(ctx)
	return err
}

// use makes next what the replica runs.
func (w *Watcher) use(next *loaded, h *header, applyTimer *prometheus.Timer) {
	first := w.loaded == nil
	w.loaded, w.rejected = next, version{}
	w.skips, w.named = next.skipped()
	w.options.Use(next.snapshot())
	w.metrics.revision.Set(float64(next.revision))
	w.metrics.lag.Set(0)
	if !first {
		// Two moments of the server's clock, and what has passed here since.
		w.metrics.apply.Observe(float64(h.now-h.published)/1e6 + applyTimer.ObserveDuration().Seconds())
	}
	if next.matchesDigest() {
		w.setHealth(following, nil)
		return
	}
	w.reject(h, otherPlans) // used for want of better, but the leader is to know
}

// refuse keeps what is held. It returns whether that is news.
func (w *Watcher) reject(h *header, why health) bool {
	changed := w.rejected != h.version || w.health != why
	w.rejected = h.version
	w.setHealth(why, nil)
	return changed
}

const unreachable health = "redis cannot be reached"

// stand keeps how the registry stands, with one log line when it changes.
func (w *Watcher) setHealth(now health, err error) {
	if now == following && w.loaded != nil {
		w.metrics.following.Set(1)
	} else {
		w.metrics.following.Set(0)
	}
	if w.health == now {
		return
	}
	w.health = now
	if now == following {
		w.logger.Info("Following the registry", "epoch", w.loaded.epoch, "revision", w.loaded.revision)
		return
	}
	w.logger.Warn("Not following the registry", "reason", string(now), "error", err, "loaded", w.loaded != nil)
}

// beat says what the replica runs and returns what the registry is. A replica that
// runs nothing serves nobody and does not appear.
func (w *Watcher) heartbeat(ctx context.Context) (header, error) {
	var r *report
	if w.loaded != nil {
		r = &report{
			Epoch: w.loaded.epoch, Revision: w.loaded.revision, Rejects: w.rejected.epoch,
			Skips: w.skips, Skipped: w.named,
		}
	}
	h, alive, err := w.scripts.heartbeat(ctx, w.options.Owner, w.options.Replica, r)
	if err != nil {
		return h, err
	}
	replicas := replicasAmong(alive, w.options.Owner)
	w.alive.Store(&replicas)
	w.metrics.replicas.Set(float64(len(replicas)))
	return h, nil
}

// leave takes the replica out of the set of those alive.
func (w *Watcher) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, _, err := w.scripts.heartbeat(ctx, w.options.Owner, w.options.Replica, nil)
	if err != nil && !errors.Is(err, redis.ErrClosed) {
		w.logger.Info("Left without saying so; the heartbeat ends by itself", "error", err)
	}
}
