// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// Values of the label verdict.
const (
	verdictAllowed      = "allowed"
	verdictDenied       = "denied"
	verdictShadowDenied = "shadow_denied"
	verdictExempt       = "exempt"
	// Of decisions by failureMode.
	verdictDegradedAllowed = "degraded_allowed"
	verdictDegradedDenied  = "degraded_denied"
)

// metrics holds the metrics of decisions.
type metrics struct {
	series    *series.Set
	duration  prometheus.Histogram
	costRatio prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, detail series.Detail) *metrics {
	m := &metrics{
		series: series.NewSet(r, detail),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_decision_duration_seconds",
			Help: "Time from the arrival of a check at the engine to its decision.",
			Buckets: []float64{
				50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 750e-6, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3,
				10e-3, 20e-3, 50e-3, 100e-3, 250e-3,
			},
		}),
		costRatio: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "weir_reservation_cost_ratio",
			Help:    "Actual cost of committed reservations, divided by the estimate.",
			Buckets: []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.5, 2, 5, 10},
		}),
	}
	r.MustRegister(m.duration, m.costRatio)
	return m
}

// verdictLabels are the values of the label verdict for policies in mode Enforce.
type verdictLabels struct{ allowed, denied string }

var (
	byStore = verdictLabels{allowed: verdictAllowed, denied: verdictDenied}
	byLocal = verdictLabels{allowed: verdictDegradedAllowed, denied: verdictDegradedDenied}
)

// count counts what the policy decided, and the limit that denied, if any, and marks a denial for reports.
func (l *verdictLabels) count(p *policy, admitted bool, limit string) {
	verdict := l.allowed
	switch {
	case admitted:
	case p.enforces():
		verdict = l.denied
		p.sightings.MarkDenial()
	default:
		verdict = verdictShadowDenied
	}
	p.series.Add(series.DecisionsTotal, limit, verdict)
}

// count counts the decision, once per policy and key. Charged policies that peek are not
// counted.
func (m *metrics) count(ev *evaluation, d *limiter.Decision) {
	for _, p := range ev.exempt {
		p.series.Add(series.DecisionsTotal, "", verdictExempt)
	}
	for _, r := range ev.outrightDenials {
		byStore.count(r.policy, false, "")
	}
	m.countFailures(&ev.search)
	m.countIgnoredLimits(&ev.operations)
	for i := range ev.charged {
		m.countOutcome(ev, i, d)
	}
}

// countFailures counts the expressions that failed.
func (m *metrics) countFailures(s *search) {
	for _, f := range s.failures {
		f.policy.series.Add(series.FailuresTotal, f.field)
	}
}

// countIgnoredLimits counts the requested limits that were ignored.
func (m *metrics) countIgnoredLimits(o *operations) {
	for _, p := range o.ignoredLimits {
		p.series.Add(series.IgnoredTotal)
	}
}

// countOutcome counts the outcome of the i-th charged policy.
func (m *metrics) countOutcome(ev *evaluation, i int, d *limiter.Decision) {
	op, inStore := ev.outcome(i)
	cp, pm := op.chargedPolicy, op.series
	switch {
	case cp.peek:
	case inStore:
		countNewKey(pm, op.reply)
		byStore.countReply(cp, op.reply)
		countNear(pm, cp, op.reply, op.entry.Cost)
		if ev.reply.FromCache && cp.id == d.Policy {
			pm.Add(series.CachedTotal)
		}
	case d.Degraded == "": // denied without the store
		if cp.id == d.Policy {
			byStore.count(cp.policy, false, d.Limit)
		}
	case op.reply != nil:
		if op.reply.Overflow {
			pm.Add(series.OverflowTotal)
		}
		byLocal.countReply(cp, op.reply)
	case cp.plan.FailureMode == plan.FailOpen || !cp.enforces():
		pm.Add(series.DecisionsTotal, "", verdictDegradedAllowed)
	default:
		pm.Add(series.DecisionsTotal, "", verdictDegradedDenied)
	}
}

// countDegraded counts a decision by failureMode for each policy, also of peeks.
func (m *metrics) countDegraded(ev *evaluation) {
	for _, op := range ev.all() {
		op.series.Add(series.DegradedTotal, string(op.plan.FailureMode), string(causeOf(ev.err)))
	}
}

// countUnchecked counts the policies that were not evaluated, also of peeks.
func (m *metrics) countUnchecked(ev *evaluation) {
	for i := range ev.unchecked {
		u := &ev.unchecked[i]
		pm := u.series
		mode, verdict := plan.FailOpen, verdictDegradedAllowed
		if u.plan.FailureMode == plan.FailClosed {
			mode = plan.FailClosed
		}
		if u.denies() {
			verdict = verdictDegradedDenied
		}
		pm.Add(series.DegradedTotal, string(mode), string(u.cause))
		if !ev.check.IsPeek() {
			pm.Add(series.DecisionsTotal, "", verdict)
		}
	}
}

// countReply counts a decision by the limits of the policy.
func (l *verdictLabels) countReply(cp *chargedPolicy, r *store.EntryReply) {
	limit := ""
	if r.Verdict != store.Admitted {
		_, limit = cp.denialReason(r)
	}
	l.count(cp.policy, r.Verdict == store.Admitted, limit)
	if r.Verdict == store.BlockStarted {
		cp.series.Add(series.BlocksTotal, r.BlockedBy)
	}
}

// countNewKey counts a decision about a key that began, or that the overflow decided.
func countNewKey(pm *series.Series, r *store.EntryReply) {
	switch {
	case r.Overflow:
		pm.Add(series.OverflowTotal)
	case r.Began:
		pm.Add(series.NewKeysTotal)
	}
}

// countNear counts the limits that the cost, if admitted, brought near.
func countNear(pm *series.Series, cp *chargedPolicy, r *store.EntryReply, cost int64) {
	if r.Verdict != store.Admitted {
		return
	}
	for i := range cp.limits {
		l, used, units := &cp.limits[i], r.Limits[i].Used, cp.quotas[i]
		if l.Algorithm == plan.Concurrency && r.Hold != store.HoldTaken {
			continue // nothing is held
		}
		if l.IsNear(used, units) && !l.IsNear(used-cost, units) {
			pm.Add(series.NearTotal, l.Name)
		}
	}
}

// causeOf returns the cause label of an error of the store.
func causeOf(err error) store.Cause {
	if failure, ok := errors.AsType[*store.Error](err); ok {
		return failure.Cause
	}
	return store.CauseConnection
}
