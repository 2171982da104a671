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
	store   store
	options WatcherOptions
	logger  *slog.Logger
	metrics *watcherMetrics
	alive   atomic.Pointer[[]Replica]

	// Only the goroutine of Start uses these.
	held     *held // nil until something is loaded
	refused  mark  // what was read and refused
	standing standing
	skips    int
	named    []string
}

// NewWatcher returns a Watcher of the registry under prefix. The client's read
// timeout should be some seconds: a load reads all plans in one reply.
func NewWatcher(client redis.UniversalClient, prefix string, o WatcherOptions) *Watcher {
	return &Watcher{
		store:   newStore(client, prefix),
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
	subscription := w.store.client.Subscribe(ctx, w.store.channel())
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
			err = w.pull(ctx)
		case <-every.C:
			err = w.look(ctx)
		case <-soon.C:
			err = w.look(ctx)
		}
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() == nil {
			w.stand(unreachable, err)
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
func (w *Watcher) look(ctx context.Context) error {
	h, err := w.beat(ctx)
	if err != nil {
		return err
	}
	w.metrics.lag.Set(0)
	if w.held != nil {
		w.metrics.lag.Set(float64(max(0, h.revision-w.held.revision)))
	}
	switch now := w.held.judge(&h, w.options.Owner); {
	case now != following:
		if w.refuse(&h, now) {
			_, err = w.beat(ctx) // the leader is to know at once
		}
		return err
	case h.mark == w.refused:
		w.stand(foreign, nil) // read before, and nothing has changed
		return nil
	case w.held != nil && w.held.mark == h.mark:
		w.refused = mark{}
		w.stand(following, nil)
		return nil
	}
	return w.pull(ctx)
}

// pull reads what is lacking and uses it.
func (w *Watcher) pull(ctx context.Context) error {
	var mine mark
	if w.held != nil {
		mine = w.held.mark
	}
	h, what, fields, err := w.store.read(ctx, mine)
	if err != nil {
		return err
	}
	since := prometheus.NewTimer(nil)
	if w.held.judge(&h, w.options.Owner) != following || what == readNothing || h.mark == w.refused {
		return nil // the next look says what it is
	}
	next, bad := w.held.next(&h, fields, what == readAll)
	if len(bad) > 0 {
		w.metrics.bad.Add(float64(len(bad)))
		w.logger.Error("Skipped plans that cannot be read", "plans", len(bad), "first", bad[0])
	}
	// Within an epoch, plans that are not those that were written belong to
	// another history. In a new one they are better than those of the old.
	if !next.right() && w.held != nil && w.held.epoch == h.epoch {
		w.refuse(&h, foreign)
	} else {
		w.use(next, &h, since)
	}
	_, err = w.beat(ctx)
	return err
}

// use makes next what the replica runs.
func (w *Watcher) use(next *held, h *header, since *prometheus.Timer) {
	first := w.held == nil
	w.held, w.refused = next, mark{}
	w.skips, w.named = next.skipped()
	w.options.Use(next.snapshot())
	w.metrics.revision.Set(float64(next.revision))
	w.metrics.lag.Set(0)
	if !first {
		// Two moments of the server's clock, and what has passed here since.
		w.metrics.apply.Observe(float64(h.now-h.published)/1e6 + since.ObserveDuration().Seconds())
	}
	if next.right() {
		w.stand(following, nil)
		return
	}
	w.refuse(h, foreign) // used for want of better, but the leader is to know
}

// refuse keeps what is held. It returns whether that is news.
func (w *Watcher) refuse(h *header, why standing) bool {
	news := w.refused != h.mark || w.standing != why
	w.refused = h.mark
	w.stand(why, nil)
	return news
}

const unreachable standing = "redis cannot be reached"

// stand keeps how the registry stands, with one log line when it changes.
func (w *Watcher) stand(now standing, err error) {
	if now == following && w.held != nil {
		w.metrics.following.Set(1)
	} else {
		w.metrics.following.Set(0)
	}
	if w.standing == now {
		return
	}
	w.standing = now
	if now == following {
		w.logger.Info("Following the registry", "epoch", w.held.epoch, "revision", w.held.revision)
		return
	}
	w.logger.Warn("Not following the registry", "reason", string(now), "error", err, "loaded", w.held != nil)
}

// beat says what the replica runs and returns what the registry is. A replica that
// runs nothing serves nobody and does not appear.
func (w *Watcher) beat(ctx context.Context) (header, error) {
	var r *report
	if w.held != nil {
		r = &report{
			Epoch: w.held.epoch, Revision: w.held.revision, Distrusts: w.refused.epoch,
			Skips: w.skips, Skipped: w.named,
		}
	}
	h, alive, err := w.store.heartbeat(ctx, w.options.Owner, w.options.Replica, r)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, _, err := w.store.heartbeat(ctx, w.options.Owner, w.options.Replica, nil)
	if err != nil && !errors.Is(err, redis.ErrClosed) {
		w.logger.Info("Left without saying so; the heartbeat ends by itself", "error", err)
	}
}
