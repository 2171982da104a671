// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// countHolds counts what a decision has done with holds. Participants that peek are not counted.
func (m *metrics) countHolds(ev *evaluation, series viewMetrics) {
	if ev.reply == nil || ev.reply.FromCache {
		return
	}
	for i := range ev.participants {
		entry, r := &ev.call.Entries[i], &ev.reply.Entries[i]
		if entry.Peek {
			continue
		}
		pm := series[ev.participants[i].policy]
		pm.countSettled(r)
		switch {
		case entry.Action != quota.Reserve:
			if ev.participants[i].concurrent && entry.Action == quota.Check {
				pm.add(pm.unheld)
			}
		case r.Hold == quota.HoldTaken && !ev.isOpen:
			pm.add(pm.reservations, outcomeReserved)
		case r.Verdict != quota.Admitted:
			pm.add(pm.reservations, outcomeDenied)
		}
	}
}

// countSettled counts the holds that the call has spent, and the debt that it cut.
func (pm *policyMetrics) countSettled(r *quota.EntryReply) {
	pm.addUnits(pm.reservations, r.Settled, outcomeEnded)
	pm.addUnits(pm.debtCut, r.DebtCut)
}

// countCommits counts the outcomes of a commit.
func (m *metrics) countCommits(ev *evaluation, series viewMetrics) {
	for i := range ev.participants {
		pt := &ev.participants[i]
		m.countCommit(series[pt.policy], pt, ev.call.Entries[i].Cost, &ev.reply.Entries[i])
	}
}

// countCommit counts the outcome of a commit for one policy and key.
func (m *metrics) countCommit(pm *policyMetrics, pt *participant, cost int64, r *quota.EntryReply) {
	pm.countSettled(r)
	switch {
	case r.Hold == quota.HoldMissing:
		pm.add(pm.reservations, outcomeMissing)
	case r.Hold != quota.HoldFound:
		pm.countCharge(pt, r, cost)
	case cost == 0:
		pm.add(pm.reservations, outcomeCancelled)
	default:
		pm.add(pm.reservations, outcomeCommitted)
		pm.addUnits(pm.debt, pt.debtOf(r, cost-r.Estimate))
		m.costRatio.Observe(float64(cost) / float64(r.Estimate))
	}
}

// countRenewals counts the outcomes of a renewal.
func (m *metrics) countRenewals(ev *evaluation, series viewMetrics) {
	for i := range ev.participants {
		pm, r := series[ev.participants[i].policy], &ev.reply.Entries[i]
		pm.countSettled(r)
		outcome := outcomeRenewed
		if r.Hold == quota.HoldMissing {
			outcome = outcomeMissing
		}
		pm.add(pm.reservations, outcome)
	}
}

// countCharges counts the outcomes of charges, and of the commits among them.
func (m *metrics) countCharges(ev *evaluation, series viewMetrics) {
	m.countProblems(ev, series)
	for i := range ev.participants {
		pt, entry, r := &ev.participants[i], &ev.call.Entries[i], &ev.reply.Entries[i]
		pm := series[pt.policy]
		pm.countNewKey(r)
		switch {
		case entry.Action != quota.Charge:
			m.countCommit(pm, pt, entry.Cost, r)
			continue
		case r.Hold == quota.HoldMissing:
			pm.add(pm.charges, outcomeRepeated)
		default:
			pm.countCharge(pt, r, entry.Cost)
		}
		pm.countSettled(r)
	}
}

func (pm *policyMetrics) countCharge(pt *participant, r *quota.EntryReply, cost int64) {
	pm.add(pm.charges, outcomeCharged)
	pm.addUnits(pm.debt, pt.debtOf(r, cost))
}

// debtOf returns the units above the quota of a limit that spending more units has added, the
// largest of all limits.
func (pt *participant) debtOf(r *quota.EntryReply, spent int64) (debt int64) {
	for i, most := range pt.quotas {
		if pt.limits[i].Algorithm == plan.Concurrency {
			continue // it holds units and spends none
		}
		used := r.Limits[i].Used
		debt = max(debt, max(0, used-most)-max(0, used-spent-most))
	}
	return debt
}
