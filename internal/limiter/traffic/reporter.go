// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// Period is the time between two rounds of reports, and so the longest that a first sighting waits.
	Period = time.Second
	// reportSeconds is the shortest time between two reports of one policy and target, in seconds.
	reportSeconds = 60
	// life is how long a report counts, as does the whole set after the last one.
	life = 24 * time.Hour
	// maxMembers bounds the set: several targets for each of 10,000 policies.
	maxMembers = 1 << 16
	// batchSize bounds the members in one call of Redis.
	batchSize = 500
	// callTimeout bounds one call of Redis.
	callTimeout = 2 * time.Second

	trafficKey = "{registry}:traffic"
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
	o       Options
	keys    []string
	began   time.Time
	pending []pendingReport
	failed  bool // the last round failed
}

// pendingReport is a sighting that is to be reported.
type pendingReport struct {
	*Sightings
	*state

	target plan.Target
}

// NewReporter returns a Reporter that is not started.
func NewReporter(o Options) *Reporter {
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	return &Reporter{o: o, keys: []string{o.Prefix + trafficKey}, began: o.Now()}
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
	var err error
	for first := 0; first < len(r.pending) && err == nil; first += batchSize {
		err = r.send(ctx, r.pending[first:min(first+batchSize, len(r.pending))], second)
	}
	if err != nil && !r.failed && ctx.Err() == nil {
		r.o.Logger.Warn("Failed to report which policies have traffic", "error", err)
	}
	r.failed = err != nil
}

// collect sets the pending reports, and lets decisions mark again what was reported a minute ago.
func (r *Reporter) collect(second uint32) {
	clear(r.pending)
	r.pending = r.pending[:0]
	r.o.Each(func(s *Sightings) {
		s.each(func(target plan.Target, of *state) {
			if of.renew(second) {
				r.pending = append(r.pending, pendingReport{Sightings: s, state: of, target: target})
			}
		})
	})
}

// send reports the batch, in one call.
func (r *Reporter) send(ctx context.Context, batch []pendingReport, second uint32) error {
	args := make([]any, 0, 2+len(batch))
	args = append(args, life.Milliseconds(), maxMembers)
	for _, p := range batch {
		args = append(args, p.member(p.target))
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := ignoreNil(reportScript.Run(ctx, r.o.Redis, r.keys, args...).Err()); err != nil {
		return err
	}
	for _, p := range batch {
		p.setReported(second)
	}
	return nil
}

// ignoreNil returns the error of a script, unless it is that it returned nothing.
func ignoreNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
