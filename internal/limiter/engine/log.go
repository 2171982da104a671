// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// decisionLog writes decisions into the log.
type decisionLog struct {
	logger     *slog.Logger
	complaints rate.Sometimes
}

func newDecisionLog(logger *slog.Logger) *decisionLog {
	return &decisionLog{logger: logger, complaints: rate.Sometimes{Interval: time.Second}}
}

func keyHash(key script.Key) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

// log writes the decision, one line for each policy and key that took part and one
// if none did. That is for whoever looks into the trouble of one caller, so it is
// written at level Debug only.
func (l *decisionLog) write(ctx context.Context, check *limiter.Check, ev *evaluation, d *limiter.Decision) {
	if !l.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	common := []slog.Attr{
		slog.Bool("allowed", d.Allowed), slog.String("reason", string(d.Reason)),
		slog.Duration("retryAfter", d.RetryAfter),
	}
	if len(ev.participants) == 0 {
		charge := check.ChargeOf(plan.AnyDescriptor)
		l.logger.LogAttrs(ctx, slog.LevelDebug, "Decided", append(common, slog.String("policy", d.Policy),
			slog.Int64("cost", charge.Cost), slog.Bool("peek", charge.Peek))...)
		return
	}
	states := d.Limits
	for i, a := range ev.participants {
		entry := &ev.call.Entries[i]
		attrs := slices.Concat(common, []slog.Attr{
			slog.String("policy", a.id), slog.String("keyHash", keyHash(entry.Key)),
			slog.Int64("cost", entry.Cost), slog.Bool("peek", entry.Peek),
		})
		if len(states) > 0 { // else Redis did not answer
			used := make([]any, len(a.limits))
			for j := range used {
				used[j] = slog.Int64(states[j].Limit, states[j].Used)
			}
			states = states[len(used):]
			attrs = append(attrs, slog.String("verdict", ev.reply.Entries[i].Verdict.String()), slog.Group("used", used...))
		}
		l.logger.LogAttrs(ctx, slog.LevelDebug, "Decided", attrs...)
	}
}

func (l *decisionLog) degraded(err error, d *limiter.Decision) {
	l.complaints.Do(func() {
		l.logger.Error("Decided without Redis", "error", err, "cause", causeOf(err),
			"failureMode", d.Degraded, "allowed", d.Allowed)
	})
}
