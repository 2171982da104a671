// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// needsLocal reports whether a check that the store did not answer is decided by the limits of
// policies with failureMode Local: unless it is denied already, or by a policy with Closed.
func (ev *evaluation) needsLocal() bool {
	if ev.call.Denied || ev.overQuota >= 0 || ev.closed() != nil {
		return false
	}
	return slices.ContainsFunc(ev.participants, func(pt participant) bool { return pt.plan.FailureMode == plan.FailLocal })
}

// newLocal returns an evaluation of the policies with failureMode Local, each with the share of
// one of the replicas, for the store of this process. The call of ev may still be in flight.
func (ev *evaluation) newLocal(replicas int64) *evaluation {
	local := newEvaluation()
	local.degraded, local.replicas = plan.FailLocal, replicas
	local.call.Draw = ev.call.Draw
	for i, pt := range ev.participants {
		if pt.plan.FailureMode != plan.FailLocal {
			continue
		}
		pt.selected, pt.variant = pt.selected.shareOf(replicas), pt.shareOf(replicas)
		entry := ev.call.Entries[i]
		entry.Policy, entry.OnlyKnown = pt.script, false
		entry.Action = quota.Check // a reserve spends its estimate here, and is committed as a charge
		local.participants = append(local.participants, pt)
		local.call.Entries = append(local.call.Entries, entry)
	}
	local.markOverQuota()
	return local
}

// judgeLocally turns the local evaluation into a decision. Policies with failureMode Open admit
// the check.
func (ev *evaluation) judgeLocally(check *limiter.Check) *limiter.Decision {
	d := ev.local.judge(check)
	d.Degraded = plan.FailLocal
	if d.Allowed && len(ev.local.participants) < len(ev.participants) {
		d.Reason = limiter.ReasonStoreUnavailable
	}
	return d
}

// localReply returns the participant of the local evaluation for the same policy and key, and
// its reply; nil if the policy was not evaluated locally.
func (ev *evaluation) localReply(i int) (*participant, *quota.EntryReply) {
	if ev.local == nil || ev.participants[i].plan.FailureMode != plan.FailLocal {
		return nil, nil
	}
	at := 0
	for _, pt := range ev.participants[:i] {
		if pt.plan.FailureMode == plan.FailLocal {
			at++
		}
	}
	return &ev.local.participants[at], &ev.local.reply.Entries[at]
}
