// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// Values of the label outcome of reservations.
const (
	outcomeReserved  = "reserved"
	outcomeDenied    = "denied"
	outcomeCommitted = "committed"
	outcomeCancelled = "cancelled"
	outcomeRenewed   = "renewed"
	outcomeEnded     = "ended"   // spent at its estimate
	outcomeMissing   = "missing" // a commit or a renewal found no open hold
)

// Values of the label outcome of charges.
const (
	outcomeCharged  = "charged"
	outcomeRepeated = "repeated"
)

// countHolds counts what a decision has done with holds. Charged policies that peek are not counted.
func (m *metrics) countHolds(ev *evaluation) {
	if ev.reply == nil || !ev.reply.IsFromStore() {
		return
	}
	canceled := ev.copiedID() != nil
	for _, op := range ev.all() {
		entry, r := op.entry, op.reply
		if entry.Peek || r == nil {
			continue
		}
		pm := op.series
		countSettled(pm, op, r)
		switch {
		case entry.Action != store.Reserve:
			if op.concurrent && entry.Action == store.Check {
				pm.Add(series.UnheldTotal)
			}
		case r.Hold == store.HoldTaken && !canceled:
			pm.Add(series.ReservationsTotal, outcomeReserved)
		case r.Verdict != store.Admitted:
			pm.Add(series.ReservationsTotal, outcomeDenied)
		}
	}
}

// countSettled counts the reservations that the call has settled, and the debt that it cut. Ended slices are counted by
// the replica that had them.
func countSettled(pm *series.Series, op operation, r *store.EntryReply) {
	if !op.stored.TakesSlices() {
		pm.AddUnits(series.ReservationsTotal, r.Settled, outcomeEnded)
	}
	pm.AddUnits(series.DebtCutTotal, r.DebtCut)
}

// countCommits counts the outcomes of a commit.
func (m *metrics) countCommits(o *operations) {
	for _, op := range o.all() {
		m.countCommit(op.series, op)
	}
}

// countCommit counts the outcome of a commit for one policy and key.
func (m *metrics) countCommit(pm *series.Series, op operation) {
	cost, r := op.entry.Cost, op.reply
	countSettled(pm, op, r)
	if r.Verdict == store.BlockStarted {
		pm.Add(series.BlocksTotal, r.BlockedBy)
	}
	switch {
	case r.Hold == store.HoldMissing:
		pm.Add(series.ReservationsTotal, outcomeMissing)
	case r.Hold != store.HoldFound:
		countCharge(pm, op)
	case cost == 0:
		pm.Add(series.ReservationsTotal, outcomeCancelled)
	default:
		pm.Add(series.ReservationsTotal, outcomeCommitted)
		pm.AddUnits(series.DebtTotal, op.debtOf(r, cost-r.Estimate))
		m.costRatio.Observe(float64(cost) / float64(r.Estimate))
	}
}

// countRenewals counts the outcomes of a renewal.
func (m *metrics) countRenewals(o *operations) {
	for _, op := range o.all() {
		pm := op.series
		countSettled(pm, op, op.reply)
		outcome := outcomeRenewed
		if op.reply.Hold == store.HoldMissing {
			outcome = outcomeMissing
		}
		pm.Add(series.ReservationsTotal, outcome)
	}
}

// countCharges counts the outcomes of charges, and of the commits among them.
func (m *metrics) countCharges(o *operations) {
	m.countIgnoredLimits(o)
	for _, op := range o.all() {
		pm := op.series
		countNewKey(pm, op.reply)
		if op.entry.Action != store.Charge {
			m.countCommit(pm, op)
			continue
		}
		countSettled(pm, op, op.reply)
		if op.reply.Hold == store.HoldMissing {
			pm.Add(series.ChargesTotal, outcomeRepeated)
		} else {
			countCharge(pm, op)
		}
	}
}

// countCharge counts a charge that was spent, and its debt.
func countCharge(pm *series.Series, op operation) {
	pm.Add(series.ChargesTotal, outcomeCharged)
	pm.AddUnits(series.DebtTotal, op.debtOf(op.reply, op.entry.Cost))
}

// debtOf returns how many of the spent units are above the quota of a limit, the largest number of all
// limits.
func (cp *chargedPolicy) debtOf(r *store.EntryReply, spent int64) (debt int64) {
	for i, units := range cp.quotas {
		if cp.limits[i].Algorithm == plan.Concurrency {
			continue // it holds units and spends none
		}
		used := r.Limits[i].Used
		debt = max(debt, max(0, used-units)-max(0, used-spent-units))
	}
	return debt
}
