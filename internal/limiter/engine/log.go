// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// KeyHash tells keys apart in logs, which must not hold them: keys are accounts,
// addresses and tokens of callers. Equal keys have equal hashes everywhere.
func (*Engine) KeyHash(key ...string) string { return keyHash(script.EncodeKey(key...)) }

func keyHash(key script.Key) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

// log writes the decision, one line for each policy and key that took part and one
// if none did. That is for whoever looks into the trouble of one caller, so it is
// written at level Debug only.
func (e *Engine) log(ctx context.Context, check *limiter.Check, v *evaluation, d *limiter.Decision) {
	if !e.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	common := []slog.Attr{
		slog.Bool("allowed", d.Allowed), slog.String("reason", string(d.Reason)),
		slog.Duration("retryAfter", d.RetryAfter),
	}
	if len(v.asked) == 0 {
		charge := check.ChargeOf(plan.AnyDescriptor)
		e.logger.LogAttrs(ctx, slog.LevelDebug, "Decided", append(common, slog.String("policy", d.Policy),
			slog.Int64("cost", charge.Cost), slog.Bool("peek", charge.Peek))...)
		return
	}
	states := d.Limits
	for i, a := range v.asked {
		entry := &v.call.Entries[i]
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
			attrs = append(attrs, slog.String("verdict", v.reply.Entries[i].Verdict.String()), slog.Group("used", used...))
		}
		e.logger.LogAttrs(ctx, slog.LevelDebug, "Decided", attrs...)
	}
}
