// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
)

// Options configure a replay.
type Options struct {
	Source Source
	// Progress is called with the number of lines, now and then; nil is not called.
	Progress func(lines int64)
}

// progressEvery is the number of lines between two calls of Options.Progress.
const progressEvery = 1 << 14

// Run decides all requests of the log by the plans, which must have distinct IDs, and reports what
// they deny. A policy without matches applies to every request.
func Run(ctx context.Context, plans []*plan.Plan, o Options) (*Report, error) {
	r := newReplay(plans)
	r.recorder.Store = memory.NewStore(memory.Options{Keys: 1 << 40, Now: func() time.Time { return r.now }})
	return r.run(ctx, o)
}

// replay is one run over a log.
type replay struct {
	plans    []*plan.Plan
	engine   *engine.Engine
	recorder *recorder
	now      time.Time // of the log
	count    counts
	// decided is called after each decision, in the order of time; nil is not called.
	decided func(*limiter.Decision)
}

// newReplay returns a replay, whose store is still missing.
func newReplay(plans []*plan.Plan) *replay {
	r := &replay{plans: applicable(plans), count: counts{minutes: map[int64]*leveled{}}}
	r.recorder = newRecorder(nil, r.plans)
	draws := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same log gives the same result
	r.engine = engine.New(engine.Options{
		Store: r.recorder, Draw: draws.Uint32, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	r.engine.Use(index.NewSnapshot(1, r.plans))
	return r
}

// applicable returns the plans, changed so that those without matches apply to every request, as to
// a check that names them.
func applicable(plans []*plan.Plan) []*plan.Plan {
	changed := slices.Clone(plans)
	for i, p := range plans {
		if len(p.Matches) == 0 {
			every := *p
			every.Matches = []plan.Match{{When: "true"}}
			changed[i] = &every
		}
	}
	return changed
}

func (r *replay) run(ctx context.Context, o Options) (*Report, error) {
	lines, err := o.Source.scan(r.plans)
	if err != nil {
		return nil, err
	}
	defer lines.close()
	sorted := &order{most: maxHeld, emit: func(e *entry) error { return r.decideEntry(ctx, e) }}
	var e entry
	for n := int64(1); ; n++ {
		err := lines.next(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = sorted.add(&e)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", lines.number, err)
		}
		if n%progressEvery == 0 {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if o.Progress != nil {
				o.Progress(n)
			}
		}
	}
	if err := sorted.finish(); err != nil {
		return nil, err
	}
	if r.count.lines == 0 {
		return nil, fmt.Errorf("no line is in the format %s: %w", o.Source.Format, lines.first)
	}
	return r.report(lines, sorted), nil
}

// decideEntry decides one request at its time.
func (r *replay) decideEntry(ctx context.Context, e *entry) error {
	r.now = time.UnixMicro(e.micros)
	r.recorder.begin()
	decision, err := r.engine.Decide(ctx, &limiter.Check{Attributes: e.attributes, Cost: 1})
	if err != nil {
		return err
	}
	if decision.Degraded != "" {
		return errors.New("the store did not answer")
	}
	if decision.Reason == limiter.ReasonDeniedByOverride || decision.Reason == limiter.ReasonMissingKey {
		r.recorder.policies[decision.Policy].total[levels-1].add(true) // without a call
	}
	r.count.add(e, r.recorder.level, !decision.Allowed)
	if r.decided != nil {
		r.decided(decision)
	}
	return nil
}

// counts are what the requests of the log add up to.
type counts struct {
	lines, tooMany int64 // tooMany have status 429
	from, to       int64 // microseconds
	total          leveled
	minutes        map[int64]*leveled // since 1970
	line           timeline
}

func (c *counts) add(e *entry, level int, denied bool) {
	if c.lines == 0 {
		c.from = e.micros
		c.line.start = e.micros
	}
	c.lines++
	c.to = e.micros
	if e.status == http.StatusTooManyRequests {
		c.tooMany++
	}
	c.total[level].add(denied)
	minute := e.micros / (60 * second)
	if c.minutes[minute] == nil {
		c.minutes[minute] = &leveled{}
	}
	c.minutes[minute][level].add(denied)
	c.line.add(e.micros, level, denied)
}

// timeline counts requests in intervals of equal length, which doubles when there are too many.
type timeline struct {
	start int64 // microseconds
	width int64 // microseconds
	bins  []leveled
}

const maxBins = 480

func (t *timeline) add(micros int64, level int, denied bool) {
	t.width = cmp.Or(t.width, second)
	for (micros-t.start)/t.width >= maxBins {
		t.halve()
	}
	i := int((micros - t.start) / t.width)
	for len(t.bins) <= i {
		t.bins = append(t.bins, leveled{})
	}
	t.bins[i][level].add(denied)
}

// halve joins every two intervals.
func (t *timeline) halve() {
	t.width *= 2
	for i := range t.bins {
		sum := t.bins[i]
		if i%2 == 1 {
			sum = t.bins[i/2]
			for l := range sum {
				sum[l].Requests += t.bins[i][l].Requests
				sum[l].Denied += t.bins[i][l].Denied
			}
		}
		t.bins[i/2] = sum
	}
	t.bins = t.bins[:(len(t.bins)+1)/2]
}
