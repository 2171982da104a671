// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
)

// WatcherOptions configure a Watcher.
type WatcherOptions struct {
	// Installation is the one of the process. While its name is not known, the Watcher follows
	// the registry that it finds, unless processes of several installations are alive.
	// Required.
	Installation *Installation
	// Replica is the name of this replica, unique in the installation and without a slash.
	// Required.
	Replica string
	// Clock learns the time of Redis from every heartbeat; may be nil.
	Clock *redisclient.Clock
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registerer registers the metrics; nil does not export them.
	Registerer prometheus.Registerer
}

// Watcher keeps the snapshot of one replica equal to the registry. It never replaces a
// loaded version with an older one.
type Watcher struct {
	scripts *scripts
	options WatcherOptions
	logger  *slog.Logger
	metrics *watcherMetrics
	found   atomic.Pointer[found]
	asks    chan chan<- struct{} // of Replicas; closed after a survey
	answers atomic.Bool          // Redis answered the last call
	unready atomic.Pointer[plan.Unready]
	follows atomic.Pointer[string] // owner of the loaded plans

	live liveReplicas // recorded only by the goroutine of Start

	// Used only by the goroutine of Start.
	applySnapshot func(*index.Snapshot)
	loaded        *loaded // nil before the first load
	rejected      version // reported to the leader as wrong; the loaded one after a digest mismatch
	state         followState
	heartbeats    heartbeats
	reported      *heartbeat // the last heartbeat
	survey        survey
	owners        []string // of all live processes; nil before the first heartbeat
}

// NewWatcher returns a Watcher of the registry under prefix. The read timeout of the client
// should be several seconds, because a load reads all plans in one reply.
func NewWatcher(client redis.UniversalClient, prefix string, o WatcherOptions) *Watcher {
	scripts := newScripts(client, prefix, o.Clock)
	return &Watcher{
		scripts:    scripts,
		heartbeats: heartbeats{scripts: scripts},
		options:    o,
		logger:     cmp.Or(o.Logger, slog.Default()),
		metrics:    newWatcherMetrics(o.Registerer),
		asks:       make(chan chan<- struct{}),
	}
}

// Replicas returns the live replicas, sorted by name, as of the last survey. If that is old and Redis answers, Replicas waits for
// another one, up to a second.
func (w *Watcher) Replicas(ctx context.Context) []Replica {
	if w.answers.Load() && w.found.Load().isOld() {
		w.askForSurvey(ctx)
	}
	return w.found.Load().list()
}

// askForSurvey waits until the goroutine of Start has made a survey.
func (w *Watcher) askForSurvey(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	done := make(chan struct{})
	select {
	case w.asks <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// surveyFor makes a survey, unless another caller just had one, and closes done.
func (w *Watcher) surveyFor(ctx context.Context, done chan<- struct{}) error {
	defer close(done)
	if !w.found.Load().isOld() {
		return nil
	}
	w.survey.due = time.Now() //nolint:forbidigo // at the next heartbeat
	return w.poll(ctx)
}

// Unready returns the policies that are not Ready, as of the last heartbeat of the leader, or nil
// without a leader.
func (w *Watcher) Unready() *plan.Unready { return w.unready.Load() }

// Start follows the registry until ctx ends and passes every new snapshot to apply, one at a
// time. A snapshot takes effect when apply returns, so apply must be fast. While Redis is
// unreachable the Watcher retries.
func (w *Watcher) Start(ctx context.Context, apply func(*index.Snapshot)) error {
	w.applySnapshot = apply
	// Subscribe before the first read: a change is either read or announced, never lost
	// in between.
	subscription := w.scripts.client.Subscribe(ctx, w.scripts.channel())
	defer func() { _ = subscription.Close() }()
	defer w.leave(ctx)
	defer w.answers.Store(false)
	messages := subscription.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(subscriptionCheck))
	every := time.NewTicker(period)
	defer every.Stop()
	soon := time.NewTimer(0)
	defer soon.Stop()
	for failures := 0; ; {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case message, open := <-messages:
			if !open {
				messages = nil // the client was closed; the ticker continues
				continue
			}
			if !announcesChange(message, messages) && w.loaded != nil {
				// Subscribed again, as all other replicas after an outage, so compare at a random time.
				soon.Reset(rand.N(longestRetry)) //nolint:gosec // a spread in time is not secret
				continue
			}
			err = w.load(ctx)
		case done := <-w.asks:
			err = w.surveyFor(ctx, done)
		case <-every.C:
			err = w.poll(ctx)
		case <-soon.C:
			err = w.poll(ctx)
		}
		w.answers.Store(err == nil)
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

// announcesChange reports whether the message, or one of the queued ones, announces a change. The others report that a
// subscription has begun. It discards the queued ones: one load covers them all.
func announcesChange(message any, queued <-chan any) (announces bool) {
	for {
		_, isAnnouncement := message.(*redis.Message)
		announces = announces || isAnnouncement
		select {
		case next, open := <-queued:
			if !open {
				return announces
			}
			message = next
		default:
			return announces
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
	switch now := w.compare(&h); {
	case now == ownedElsewhere || now == laterLayout:
		w.setState(now, nil) // not wrong: another owner may be accepted once the name is known
		return nil
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

// compare returns whether the Watcher can follow the registry.
func (w *Watcher) compare(h *header) followState {
	before := w.loaded
	if before != nil && !w.accepts(before.epoch.owner()) {
		before = nil // the plans of another installation
	}
	return before.compare(h, w.accepts)
}

// accepts reports whether the Watcher loads the registry of that owner. While the name of the
// installation is not known, that is the owner of the loaded plans or, before the first load,
// the one whose processes alone are alive.
func (w *Watcher) accepts(owner string) bool {
	switch {
	case w.options.Installation.Name() != "":
		return w.options.Installation.accepts(owner)
	case w.loaded != nil:
		return owner == w.loaded.epoch.owner()
	default:
		return w.owners != nil && !slices.ContainsFunc(w.owners, func(other string) bool { return other != owner })
	}
}

// Err returns an error if the loaded plans belong to another installation: they were
// loaded before the name of this one was known.
func (w *Watcher) Err() error {
	owner, name := w.follows.Load(), w.options.Installation.Name()
	if owner == nil || name == "" || w.options.Installation.accepts(*owner) {
		return nil
	}
	return fmt.Errorf("the plans belong to installation %q, and this process belongs to %q", *owner, name)
}

// load reads the missing changes and uses them.
func (w *Watcher) load(ctx context.Context) error {
	var mine version
	if w.loaded != nil {
		mine = w.loaded.version
		mine.digest = formatDigest(w.loaded.sum) // not the one of the registry, if they differ
	}
	h, what, fields, err := w.scripts.read(ctx, mine)
	if err != nil {
		return err
	}
	w.heartbeats.saw(&h)
	applyTimer := prometheus.NewTimer(nil)
	if w.compare(&h) != following || what == readNothing || h.version == w.rejected {
		return nil // the next poll reports it
	}
	next, bad := w.loaded.next(&h, fields, what == readAll)
	if len(bad) > 0 {
		w.metrics.bad.Add(float64(len(bad)))
		w.logger.Error("Skipped plans that cannot be decoded", "plans", len(bad), "first", bad[0])
	}
	// Within an epoch, a wrong digest means another history: reject it. In a new epoch the
	// plans are still better than the plans of the old one.
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
	owner := next.epoch.owner()
	w.follows.Store(&owner)
	w.applySnapshot(next.records)
	w.metrics.revision.Set(float64(next.revision))
	w.metrics.size.Set(float64(next.size))
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

// heartbeat reports the process with the version that it runs, and returns the state of the
// registry. Now and then it finds all live processes: see survey.
func (w *Watcher) heartbeat(ctx context.Context) (header, error) {
	r := w.ownHeartbeat()
	if w.reported != nil && w.reported.field() != r.field() {
		if err := w.scripts.leave(ctx, w.reported); err != nil {
			return header{}, err
		}
	}
	w.reported = r
	now := time.Now() //nolint:forbidigo // the age of heartbeats
	h, seen, err := w.heartbeats.send(ctx, r)
	if err != nil {
		return h, err
	}
	if w.survey.isDue(now, seen.processes) || w.options.Installation.Name() == "" {
		alive, err := w.scripts.alive(ctx, h.now)
		if err != nil {
			return h, err
		}
		seen.processes = len(alive) // without the expired ones, which are removed now
		w.survey.plan(now, seen.processes)
		w.owners = ownersAmong(alive)
		w.found.Store(&found{at: now, processes: seen.processes, replicas: replicasAmong(alive, w.accepts)})
	}
	w.unready.Store(w.unreadyOf(seen.leader))
	replicas := w.found.Load().number(seen.processes)
	w.metrics.replicas.Set(float64(replicas))
	w.live.record(now, replicas)
	return h, nil
}

// ownHeartbeat returns the heartbeat of the replica. Its owner is the owner of the loaded plans, so that a leader which
// still has the former name of the installation counts the replica.
func (w *Watcher) ownHeartbeat() *heartbeat {
	r := &heartbeat{
		Owner: w.options.Installation.Name(), Kind: kindReplica, Name: w.options.Replica,
		Accepts: w.options.Installation.names(),
	}
	if w.loaded != nil {
		if owner := w.loaded.epoch.owner(); w.accepts(owner) {
			r.Owner = owner
		}
		r.Epoch, r.Revision, r.Rejects = w.loaded.epoch, w.loaded.revision, w.rejected.epoch
		r.Skips, r.Skipped = w.loaded.skips.count, w.loaded.skips.names
		r.SkipHashes, _ = binary.Append(nil, binary.BigEndian, w.loaded.skips.hashes) // numbers have no error
	}
	return r
}

// unreadyOf returns what the leader reports, or nil without one of the installation.
func (w *Watcher) unreadyOf(leader *heartbeat) *plan.Unready {
	if leader == nil || !w.accepts(leader.Owner) {
		return nil
	}
	return leader.Unready
}

// ownersAmong returns the owners of the processes that know theirs.
func ownersAmong(alive []heartbeat) []string {
	owners := []string{}
	for i := range alive {
		if owner := alive[i].Owner; owner != "" && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	return owners
}

// leave removes the replica from the live processes.
func (w *Watcher) leave(ctx context.Context) {
	if w.reported != nil {
		w.scripts.leaveAtEnd(ctx, w.reported, w.logger)
	}
}
