// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// maxBackground bounds the calls for candidates that no caller waits for. They delay checks on the way to
// Redis by at most four round trips.
const maxBackground = 128

// addTrials prepares the checks by candidates. A check with a requested limit has none: the
// request replaces the numbers of the policy.
func (ev *evaluation) addTrials() {
	for i := range ev.charged {
		cp := &ev.charged[i]
		if cp.trial == nil || cp.peek {
			continue
		}
		last := len(ev.trials) - 1
		if last < 0 || ev.trials[last].policy() != cp.policy {
			ev.trials = append(ev.trials, trialCheck{operations: newOperations()})
			last++
		}
		ev.trials[last].addComparison(cp, ev.call.Entries[i], i)
	}
}

// addComparison adds an operation with the candidate of the charged policy, whose index is original.
func (c *trialCheck) addComparison(cp *chargedPolicy, entry store.Entry, original int) {
	c.comparisons = append(c.comparisons, comparison{trial: cp.trial, original: original})
	entry.Policy = cp.trial.stored
	c.add(chargedPolicy{policy: cp.policy, variant: cp.trial.variant}, entry)
}

// policy returns the one policy of the check.
func (c *trialCheck) policy() *policy { return c.charged[0].policy }

// begin copies the facts of the decided check that the candidates need.
func (c *trialCheck) begin(ev *evaluation) {
	c.call.Draw, c.call.Denied = ev.call.Draw, ev.deniedBeside(c.policy())
	for i := range c.comparisons {
		s := &c.comparisons[i]
		c.call.Entries[i].OnlyKnown = ev.call.Entries[s.original].OnlyKnown
		for _, limit := range s.replaced {
			s.live = append(s.live, ev.reply.Entries[s.original].Allows(limit))
		}
	}
	c.markOverQuota()
}

// deniedBeside reports whether the decided check is denied, whatever the limits of the policy admit.
func (ev *evaluation) deniedBeside(p *policy) bool {
	for i := range ev.charged {
		cp := &ev.charged[i]
		if cp.policy != p && cp.enforces() && ev.reply.Entries[i].Verdict != store.Admitted {
			return true
		}
	}
	return ev.call.Denied
}

// reserves reports whether the check reserves something.
func (c *trialCheck) reserves() bool {
	return slices.ContainsFunc(c.call.Entries, func(e store.Entry) bool { return e.Action != store.Check })
}

// trialRunner evaluates calls with candidates.
type trialRunner struct {
	evaluate   evaluator
	background chan struct{} // holds one element for each call that no caller waits for
}

func newTrialRunner(evaluate evaluator) *trialRunner {
	return &trialRunner{evaluate: evaluate, background: make(chan struct{}, maxBackground)}
}

// runTrials judges the decided check by the candidates, and counts their verdicts beside the
// verdicts of the limits in force. The caller waits only where a commit may follow, which must find the hold.
func (j *trialRunner) runTrials(ctx context.Context, ev *evaluation) {
	if ev.reply == nil || !ev.isFree() {
		return
	}
	for i := range ev.trials {
		c := &ev.trials[i]
		c.begin(ev)
		count := func() {
			countTrials(c.policy().series, c)
			c.release()
		}
		runAndCount := func(ctx context.Context) {
			c.run(ctx, j.evaluate)
			count()
		}
		if c.reserves() {
			runAndCount(ctx)
		} else if !j.inBackground(ctx, runAndCount) {
			count()
		}
	}
}

// change commits, renews or charges for candidates as the operations have done.
func (j *trialRunner) change(ctx context.Context, o *operations) {
	var entries []store.Entry
	for _, op := range o.all() {
		c, entry := op.trial, *op.entry
		if c == nil {
			continue
		}
		if entry.Action == store.CommitOrCharge && op.reply.Hold == store.HoldFound {
			entry.Action = store.Commit // without a hold the candidate has denied the reserve
		}
		entry.Policy = c.stored
		entries = append(entries, entry)
	}
	if len(entries) == 0 {
		return
	}
	j.inBackground(ctx, func(ctx context.Context) {
		// After an error a hold ends by itself.
		_, _ = j.evaluate(ctx, &store.Call{Entries: entries, Uncached: true})
	})
}

// inBackground starts the work, for which no caller waits, unless maxBackground is reached.
func (j *trialRunner) inBackground(ctx context.Context, work func(context.Context)) (started bool) {
	select {
	case j.background <- struct{}{}:
	default:
		return false
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer func() { <-j.background }()
		work(ctx)
	}()
	return true
}

// verdictUnknown is the verdict of a candidate that the store did not judge.
const verdictUnknown = "unknown"

// countTrials counts the verdicts of the candidates beside the verdicts of the limits in force.
func countTrials(pm *series.Series, c *trialCheck) {
	for i := range c.comparisons {
		s := &c.comparisons[i]
		for j, limit := range s.replaced {
			verdict := verdictUnknown
			if c.reply != nil {
				verdict = verdictOf(c.reply.Entries[i].Allows(limit))
			}
			pm.Add(series.CandidatesTotal, s.limits[limit].Name, verdictOf(s.live[j]), verdict)
		}
	}
}

func verdictOf(allowed bool) string {
	if allowed {
		return verdictAllowed
	}
	return verdictDenied
}
