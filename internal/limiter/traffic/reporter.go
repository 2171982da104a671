// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// Period is the time between two rounds of reports, and so the longest that a first sighting waits.
	Period = time.Second
	// maxMembers bounds each set: several targets for each of 10,000 policies.
	maxMembers = 1 << 16
	// batchSize bounds the members in one call of Redis.
	batchSize = 500
	// callTimeout bounds one call of Redis.
	callTimeout = 2 * time.Second
)

// reportSet is a sorted set of reports.
type reportSet struct {
	key string // without the prefix
	// intervalSeconds is the shortest time between two reports of one member by one replica.
	intervalSeconds uint32
	// life is how long a report counts, as does the whole set after the last one.
	life time.Duration
}

var (
	sightingSet = reportSet{key: "{registry}:traffic", intervalSeconds: 60, life: 24 * time.Hour}
	denialSet   = reportSet{key: "{registry}:denials", intervalSeconds: 15, life: 5 * time.Minute}
)

//go:embed report.lua
var reportSource string

var reportScript = redis.NewScript(reportSource)

// Options configure a Reporter.
type Options struct {
	// Redis receives the reports, under a key with this prefix. Required.
	Redis  redis.UniversalClient
	Prefix string
	// Each visits the Sightings of all policies. Required.
	Each func(visit func(*Sightings))
	// Now is the clock. Nil is time.Now.
	Now func() time.Time
	// Logger is required.
	Logger *slog.Logger
}

// Reporter reports sightings to Redis.
type Reporter struct {
	o         Options
	began     time.Time
	sightings []pendingReport
	denials   []pendingReport
	failed    bool // the last round failed
}

// pendingReport is a state that is to be reported.
type pendingReport struct {
	*state

	member string
}

// NewReporter returns a Reporter that is not started.
func NewReporter(o Options) *Reporter {
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	return &Reporter{o: o, began: o.Now()}
}

// Start reports every Period until ctx ends, and once more then. It returns nil.
func (r *Reporter) Start(ctx context.Context) error {
	every := time.NewTicker(Period)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			r.report(context.WithoutCancel(ctx))
			return nil
		case <-every.C:
			r.report(ctx)
		}
	}
}

// report sends one round of reports. What Redis does not confirm stays for the next round. A failure is
// logged once.
func (r *Reporter) report(ctx context.Context) {
	second := firstSecond + uint32(r.o.Now().Sub(r.began)/time.Second) //nolint:gosec // overflows after 136 years
	r.collect(second)
	err := r.sendAll(ctx, sightingSet, r.sightings, second)
	if err == nil {
		err = r.sendAll(ctx, denialSet, r.denials, second)
	}
	if err != nil && !r.failed && ctx.Err() == nil {
		r.o.Logger.Warn("Failed to report which policies have traffic", "error", err)
	}
	r.failed = err != nil
}

// collect sets the pending reports, and lets decisions mark policies again that were reported an interval ago.
func (r *Reporter) collect(second uint32) {
	r.sightings, r.denials = r.sightings[:0], r.denials[:0]
	r.o.Each(func(s *Sightings) {
		s.each(func(target plan.Target, of *state) {
			if of.renew(second, sightingSet.intervalSeconds) {
				r.sightings = append(r.sightings, pendingReport{state: of, member: s.member(target)})
			}
		})
		if s.denials.renew(second, denialSet.intervalSeconds) {
			r.denials = append(r.denials, pendingReport{state: &s.denials, member: s.denialMember()})
		}
	})
}

// sendAll reports the pending reports, in batches.
func (r *Reporter) sendAll(ctx context.Context, to reportSet, pending []pendingReport, second uint32) error {
	for batch := range slices.Chunk(pending, batchSize) {
		members := make([]any, len(batch))
		for i, p := range batch {
			members[i] = p.member
		}
		if err := to.add(ctx, r.o.Redis, r.o.Prefix, members); err != nil {
			return err
		}
		for _, p := range batch {
			p.setReported(second)
		}
	}
	return nil
}

// add adds the members to the set, in one call.
func (s *reportSet) add(ctx context.Context, client redis.UniversalClient, prefix string, members []any) error {
	args := append([]any{s.life.Milliseconds(), maxMembers}, members...)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := reportScript.Run(ctx, client, []string{prefix + s.key}, args...).Err(); !errors.Is(err, redis.Nil) {
		return err // else the script returned nothing
	}
	return nil
}
