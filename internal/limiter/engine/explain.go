// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// explainWait is how long an explanation waits for the one before it.
const explainWait = time.Second

// Explain returns how the check, which must not have Hits, is decided as a peek, and why other
// policies do not apply. It decides as Decide does and returns the errors of Decide.
//
// An explanation reads every plan, so only one runs at a time: Explain returns limiter.ErrExplaining if
// another one takes longer than explainWait.
func (e *Engine) Explain(ctx context.Context, check *limiter.Check) (*limiter.Explanation, error) {
	v, err := e.begin(check)
	if err != nil {
		return nil, err
	}
	if err := e.startExplaining(ctx); err != nil {
		return nil, err
	}
	defer func() { <-e.explaining }()
	check.Peek = true
	ev := newEvaluation(v, check, time.Now()) //nolint:forbidigo // as in Decide
	ev.report, ev.call.Uncached = &report{}, true
	decision, err := e.runPhases(ctx, ev)
	if err != nil {
		return nil, err
	}
	x := &limiter.Explanation{Decision: *decision, Policies: ev.explainPolicies(check)}
	if len(check.Policies) == 0 {
		x.NearMisses = v.nearMisses(&check.Attributes, ev.report)
	}
	ev.release()
	return x, nil
}

// startExplaining waits until no other explanation runs.
func (e *Engine) startExplaining(ctx context.Context) error {
	wait := time.NewTimer(explainWait)
	defer wait.Stop()
	select {
	case e.explaining <- struct{}{}:
		return nil
	case <-wait.C:
		return limiter.ErrExplaining
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explainPolicies returns what the policies that apply contribute to the decision.
func (ev *evaluation) explainPolicies(check *limiter.Check) []limiter.ExplainedPolicy {
	var all []limiter.ExplainedPolicy
	for i := range ev.report.applied {
		if !ev.report.repeats(i) {
			all = append(all, ev.explainPolicy(&ev.report.applied[i], check))
		}
	}
	return all
}

func (ev *evaluation) explainPolicy(a *appliedPolicy, check *limiter.Check) limiter.ExplainedPolicy {
	x := limiter.ExplainedPolicy{
		Policy: a.id, Mode: a.plan.Mode, Match: a.match, Descriptor: a.descriptor,
		Key: a.parts(check.Key != nil), Allowed: a.allowed, Reason: a.reason,
	}
	if a.reason != limiter.ReasonDisabled && a.reason != limiter.ReasonTooManyPolicies && a.reason != limiter.ReasonExpressionsOverBudget {
		x.KeyHash = store.EncodeKey(a.key...).Hash()
	}
	if a.override != nil {
		x.Override, x.Group, x.Action = a.override.name, a.group, a.override.action
	}
	x.Exception = a.exception.state()
	if a.charged >= 0 {
		ev.explainLimits(a.charged, &x)
	}
	return x
}

// explainLimits sets the outcome of the limits of the i-th charged policy.
func (ev *evaluation) explainLimits(i int, x *limiter.ExplainedPolicy) {
	op, inStore := ev.outcome(i)
	r := op.reply
	if r == nil {
		x.Reason, x.Allowed = limiter.ReasonStoreUnavailable, op.plan.FailureMode != plan.FailClosed
		return
	}
	x.Limits = op.appendStates(nil, r)
	if r.Verdict == store.Blocked {
		x.Blocked, x.BlockedBy, x.BlockLeft = true, r.BlockedBy, r.BlockLeft
	}
	switch cost := op.entry.Cost; {
	case cost > op.smallestQuota && !inStore: // the cost exceeds a share; the quota may admit it
		x.Reason, x.Limit = limiter.ReasonStoreUnavailable, op.limitBelow(cost)
	case cost > op.smallestQuota:
		x.Reason, x.Limit = limiter.ReasonCostExceedsThreshold, op.limitBelow(cost)
	case r.Verdict != store.Admitted:
		x.Reason, x.Limit = op.denialReason(r)
	default:
		x.Reason, x.Allowed = limiter.ReasonAllowed, true
	}
}
