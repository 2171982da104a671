// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// decisionLog logs decisions, commits, renewals and charges. It logs problems, which clients can cause, at
// most once a second. Each kind has a rate of its own, so that no kind hides another.
type decisionLog struct {
	logger                                  *slog.Logger
	degradedRate, uncheckedRate, failedRate rate.Sometimes
}

func newDecisionLog(logger *slog.Logger) *decisionLog {
	return &decisionLog{
		logger:        logger,
		degradedRate:  rate.Sometimes{Interval: time.Second},
		uncheckedRate: rate.Sometimes{Interval: time.Second},
		failedRate:    rate.Sometimes{Interval: time.Second},
	}
}

// write logs the decision at level Debug, to find out why a key was denied: one
// line for each policy and key that took part, or one line if none did.
func (l *decisionLog) write(ctx context.Context, check *limiter.Check, o *operations, d *limiter.Decision) {
	if !l.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	common := []slog.Attr{
		slog.Bool("allowed", d.Allowed), slog.String("reason", string(d.Reason)),
		slog.Duration("retryAfter", d.RetryAfter),
	}
	if len(o.charged) == 0 {
		hits := check.HitsOf(plan.AllDescriptors)
		l.logger.LogAttrs(ctx, slog.LevelDebug, "Decided", append(common, slog.String("policy", d.Policy),
			slog.Int64("cost", hits.Cost), slog.Bool("peek", hits.Peek))...)
		return
	}
	states := d.Limits
	for _, op := range o.all() {
		attrs := slices.Concat(common, []slog.Attr{
			slog.String("policy", op.id), slog.String("keyHash", op.entry.Key.Hash()),
			slog.Int64("cost", op.entry.Cost), slog.Bool("peek", op.entry.Peek),
		})
		if op.reply != nil {
			used := make([]any, len(op.limits))
			for j := range used {
				used[j] = slog.Int64(states[j].Limit, states[j].Used)
			}
			states = states[len(used):]
			attrs = append(attrs, slog.String("verdict", op.reply.Verdict.String()), slog.Group("used", used...))
		}
		l.logger.LogAttrs(ctx, slog.LevelDebug, "Decided", attrs...)
	}
}

// degraded logs that Redis did not answer, at most once a second; as a warning if the caller did not wait
// for it.
func (l *decisionLog) degraded(ctx context.Context, err error, d *limiter.Decision) {
	l.degradedRate.Do(func() {
		level := slog.LevelError
		if causeOf(err) == store.CauseDeadline {
			level = slog.LevelWarn
		}
		l.logger.Log(ctx, level, "Decided without Redis", "error", err, "cause", causeOf(err),
			"failureMode", d.Degraded, "allowed", d.Allowed)
	})
}

// unchecked logs policies that were not evaluated, at most once a second.
func (l *decisionLog) unchecked(policies []uncheckedPolicy) {
	l.uncheckedRate.Do(func() {
		l.logger.Warn("Decided without some policies", "policies", len(policies), "firstPolicy", policies[0].id, "cause", policies[0].cause)
	})
}

// changed logs at level Debug what a commit, a renewal or a charge did: one line for each policy and
// key.
func (l *decisionLog) changed(ctx context.Context, call string, o *operations) {
	if !l.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	for _, op := range o.all() {
		l.logger.LogAttrs(ctx, slog.LevelDebug, "Changed a key", slog.String("call", call),
			slog.String("policy", op.id), slog.String("keyHash", op.entry.Key.Hash()), slog.String("id", op.entry.ID),
			slog.Int64("cost", op.entry.Cost), slog.Int64("estimate", op.reply.Estimate), slog.Bool("found", op.reply.Hold != store.HoldMissing))
	}
}

// changeFailed logs that Redis did not answer a commit, a renewal or a charge, at most once a second.
func (l *decisionLog) changeFailed(call string, err error) {
	l.failedRate.Do(func() {
		l.logger.Error("Redis did not answer", "call", call, "error", err, "cause", causeOf(err))
	})
}
