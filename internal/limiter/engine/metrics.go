// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
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

// metrics holds the metrics of decisions. docs/metrics.md describes them.
type metrics struct {
	detail     Detail
	decisions  *prometheus.CounterVec
	blocks     *prometheus.CounterVec
	degraded   *prometheus.CounterVec
	failures   *prometheus.CounterVec // of expressions
	ignored    *prometheus.CounterVec // requested limits
	cached     *prometheus.CounterVec // denials
	newKeys    *prometheus.CounterVec
	overflow   *prometheus.CounterVec
	near       *prometheus.CounterVec
	candidates *prometheus.CounterVec
	duration   prometheus.Histogram
	reservationVectors
}

func newMetrics(r prometheus.Registerer, detail Detail) *metrics {
	m := &metrics{
		detail: detail,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_decisions_total",
			Help: "Decisions, counted once per policy and key. limit is the limit that denied, else empty.",
		}, []string{"namespace", "policy", "limit", "verdict"}),
		blocks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_blocks_total",
			Help: "Blocks started, by limit.",
		}, []string{"namespace", "policy", "limit"}),
		degraded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_degraded_decisions_total",
			Help: "Decisions made by failureMode because Redis did not answer in time, or because too many policies match.",
		}, []string{"namespace", "policy", "mode", "cause"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_expression_errors_total",
			Help: "CEL expressions of policies that failed for a request.",
		}, []string{"namespace", "policy", "field"}),
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_requested_limits_ignored_total",
			Help: "Limits requested by a descriptor that could not replace a limit of the policy.",
		}, []string{"namespace", "policy"}),
		cached: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_cached_denials_total",
			Help: "Denials from memory, without Redis: it had denied the same before and returned how long.",
		}, []string{"namespace", "policy"}),
		newKeys: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_new_keys_total",
			Help: "Keys without state that a decision began.",
		}, []string{"namespace", "policy"}),
		overflow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_overflow_decisions_total",
			Help: "Decisions about unknown keys by the budget that they share during a flood of new keys, or without room in memory.",
		}, []string{"namespace", "policy"}),
		near: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_near_limit_total",
			Help: "Admitted checks that brought a key to the share of a limit that warnAt sets.",
		}, []string{"namespace", "policy", "limit"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_decision_duration_seconds",
			Help: "Time from the arrival of a check at the engine to its decision.",
			Buckets: []float64{
				50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 750e-6, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3,
				10e-3, 20e-3, 50e-3, 100e-3, 250e-3,
			},
		}),
		candidates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_candidate_decisions_total",
			Help: "Checks by the verdicts of a limit and of its candidate, which denies nothing.",
		}, []string{"namespace", "policy", "limit", "live", "candidate"}),
		reservationVectors: newReservationVectors(),
	}
	for _, vector := range m.vectors() {
		r.MustRegister(vector)
	}
	r.MustRegister(m.duration, m.costRatio)
	return m
}

// vectors returns the vectors with series of policies.
func (m *metrics) vectors() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{
		m.decisions, m.blocks, m.degraded, m.failures, m.ignored, m.cached, m.newKeys, m.overflow, m.near,
		m.candidates, m.reservations, m.charges, m.debt, m.debtCut, m.unheld,
	}
}

// forget deletes the series of owners that the next view no longer has.
func (m *metrics) forget(previous viewMetrics, next *view) {
	kept := make(map[seriesOwner]bool, len(next.policies))
	for _, p := range next.policies {
		kept[m.detail.owner(p.plan)] = true
	}
	for _, series := range previous {
		if !kept[series.owner] {
			series.drop(m)
		}
	}
}

// policyMetrics holds the series of one policy, or of all policies of a Namespace. Each
// series is created when it is first counted.
type policyMetrics struct {
	owner                                 seriesOwner
	decisions, blocks, failures, degraded *prometheus.CounterVec
	ignored, cached, newKeys, overflow    *prometheus.CounterVec
	near, reservations, charges           *prometheus.CounterVec
	debt, debtCut, unheld, candidates     *prometheus.CounterVec

	created atomic.Pointer[map[seriesKey]prometheus.Counter] // a new map for each new series
	mu      sync.Mutex                                       // serializes the creation of series
	dropped bool
}

// seriesKey identifies a series of a policy.
type seriesKey struct {
	vector *prometheus.CounterVec
	labels [3]string
}

// viewMetrics holds the series of the policies of one view.
type viewMetrics map[*policy]*policyMetrics

// forView returns the series of the policies of the view. Owners that the previous view had
// keep theirs.
func (m *metrics) forView(v *view, previous viewMetrics) viewMetrics {
	byOwner := make(map[seriesOwner]*policyMetrics, len(previous))
	for _, series := range previous {
		byOwner[series.owner] = series
	}
	series := make(viewMetrics, len(v.policies))
	for _, p := range v.policies {
		owner := m.detail.owner(p.plan)
		if byOwner[owner] == nil {
			byOwner[owner] = m.policy(owner)
		}
		series[p] = byOwner[owner]
	}
	return series
}

func (m *metrics) policy(owner seriesOwner) *policyMetrics {
	labels := owner.labels()
	pm := &policyMetrics{
		owner:     owner,
		decisions: m.decisions.MustCurryWith(labels),
		blocks:    m.blocks.MustCurryWith(labels),
		failures:  m.failures.MustCurryWith(labels),
		degraded:  m.degraded.MustCurryWith(labels),
		ignored:   m.ignored.MustCurryWith(labels),
		cached:    m.cached.MustCurryWith(labels),
		newKeys:   m.newKeys.MustCurryWith(labels),
		overflow:  m.overflow.MustCurryWith(labels),
		near:      m.near.MustCurryWith(labels),

		candidates:   m.candidates.MustCurryWith(labels),
		reservations: m.reservations.MustCurryWith(labels),
		charges:      m.charges.MustCurryWith(labels),
		debt:         m.debt.MustCurryWith(labels),
		debtCut:      m.debtCut.MustCurryWith(labels),
		unheld:       m.unheld.MustCurryWith(labels),
	}
	pm.created.Store(&map[seriesKey]prometheus.Counter{})
	return pm
}

// add adds one to the series.
func (pm *policyMetrics) add(vector *prometheus.CounterVec, labels ...string) {
	pm.addUnits(vector, 1, labels...)
}

// addUnits adds n to the series. After drop, it counts nothing: a decision that began before may
// end after it.
func (pm *policyMetrics) addUnits(vector *prometheus.CounterVec, n int64, labels ...string) {
	if n == 0 {
		return
	}
	if pm.owner.policy == "" && len(labels) > 0 && pm.namesLimit(vector) {
		labels[0] = "" // the limit or the field
	}
	key := seriesKey{vector: vector}
	copy(key.labels[:], labels)
	if counter, ok := (*pm.created.Load())[key]; ok {
		counter.Add(float64(n))
		return
	}
	pm.mu.Lock()
	defer pm.mu.Unlock()
	if pm.dropped {
		return
	}
	counter := vector.WithLabelValues(labels...)
	counter.Add(float64(n))
	created := maps.Clone(*pm.created.Load())
	created[key] = counter
	pm.created.Store(&created)
}

// namesLimit reports whether the first label of the vector is a limit or a field.
func (pm *policyMetrics) namesLimit(vector *prometheus.CounterVec) bool {
	return vector != pm.degraded && vector != pm.reservations && vector != pm.charges
}

// drop deletes the series.
func (pm *policyMetrics) drop(m *metrics) {
	pm.mu.Lock()
	defer pm.mu.Unlock()
	pm.dropped = true
	labels := pm.owner.labels()
	for _, vector := range m.vectors() {
		vector.DeletePartialMatch(labels)
	}
}

func (pm *policyMetrics) countDecision(p *policy, admitted bool, limit string) {
	verdict := verdictAllowed
	switch {
	case admitted:
	case p.enforces():
		verdict = verdictDenied
	default:
		verdict = verdictShadowDenied
	}
	pm.add(pm.decisions, limit, verdict)
}

// count counts the decision, once per policy and key. Participants that peek are not
// counted.
func (m *metrics) count(ev *evaluation, series viewMetrics, d *limiter.Decision) {
	for _, p := range ev.exempt {
		series[p].add(series[p].decisions, "", verdictExempt)
	}
	for _, r := range ev.outrightDenials {
		series[r.policy].countDecision(r.policy, false, "")
	}
	m.countProblems(ev, series)
	for i := range ev.participants {
		m.countParticipant(ev, i, series, d)
	}
}

// countProblems counts the expressions that failed and the requested limits that were ignored.
func (m *metrics) countProblems(ev *evaluation, series viewMetrics) {
	for _, f := range ev.failures {
		series[f.policy].add(series[f.policy].failures, f.field)
	}
	for _, p := range ev.ignoredLimits {
		series[p].add(series[p].ignored)
	}
}

func (m *metrics) countParticipant(ev *evaluation, i int, series viewMetrics, d *limiter.Decision) {
	pt := &ev.participants[i]
	pm := series[pt.policy]
	switch {
	case pt.peek:
	case ev.isKnown(i):
		pm.countReply(pt, &ev.reply.Entries[i], ev.call.Entries[i].Cost)
		if ev.reply.FromCache && pt.id == d.Policy {
			pm.add(pm.cached)
		}
	case d.Degraded == "": // denied without the store
		if pt.id == d.Policy {
			pm.countDecision(pt.policy, false, d.Limit)
		}
	case ev.local != nil && pt.plan.FailureMode == plan.FailLocal:
		pm.countLocalReply(ev.localReply(i))
	case pt.plan.FailureMode == plan.FailOpen || !pt.enforces():
		pm.add(pm.decisions, "", verdictDegradedAllowed)
	default:
		pm.add(pm.decisions, "", verdictDegradedDenied)
	}
}

// countDegraded counts a decision by failureMode for each policy, also of peeks.
func (m *metrics) countDegraded(ev *evaluation, series viewMetrics, err error) {
	for i := range ev.participants {
		pt := &ev.participants[i]
		pm := series[pt.policy]
		pm.add(pm.degraded, string(pt.plan.FailureMode), string(causeOf(err)))
	}
}

// countUnchecked counts the policies that were not evaluated, also of peeks.
func (m *metrics) countUnchecked(ev *evaluation, series viewMetrics, peek bool) {
	for i := range ev.unchecked {
		u := &ev.unchecked[i]
		pm, mode, verdict := series[u.policy], plan.FailOpen, verdictDegradedAllowed
		if u.plan.FailureMode == plan.FailClosed {
			mode = plan.FailClosed
		}
		if u.denies() {
			verdict = verdictDegradedDenied
		}
		pm.add(pm.degraded, string(mode), string(u.cause))
		if !peek {
			pm.add(pm.decisions, "", verdict)
		}
	}
}

func (pm *policyMetrics) countReply(pt *participant, r *quota.EntryReply, cost int64) {
	pm.countNewKey(r)
	if r.Verdict == quota.Admitted {
		pm.countDecision(pt.policy, true, "")
		pm.countNear(pt, r, cost)
		return
	}
	_, limit := pt.denialReason(r)
	pm.countDecision(pt.policy, false, limit)
	if r.Verdict == quota.Tripped {
		pm.add(pm.blocks, r.BlockedBy)
	}
}

func (pm *policyMetrics) countNewKey(r *quota.EntryReply) {
	switch {
	case r.Overflow:
		pm.add(pm.overflow)
	case r.Began:
		pm.add(pm.newKeys)
	}
}

// countNear counts the limits that the admitted cost brought near.
func (pm *policyMetrics) countNear(pt *participant, r *quota.EntryReply, cost int64) {
	for i := range pt.limits {
		l, used, most := &pt.limits[i], r.Limits[i].Used, pt.quotas[i]
		if l.Algorithm == plan.Concurrency && r.Hold != quota.HoldTaken {
			continue // nothing is held
		}
		if l.IsNear(used, most) && !l.IsNear(used-cost, most) {
			pm.add(pm.near, l.Name)
		}
	}
}

// countLocalReply counts a decision by failureMode Local.
func (pm *policyMetrics) countLocalReply(pt *participant, r *quota.EntryReply) {
	if r.Overflow {
		pm.add(pm.overflow)
	}
	if r.Verdict == quota.Admitted {
		pm.add(pm.decisions, "", verdictDegradedAllowed)
		return
	}
	verdict := verdictDegradedDenied
	if !pt.enforces() {
		verdict = verdictShadowDenied
	}
	_, limit := pt.denialReason(r)
	pm.add(pm.decisions, limit, verdict)
	if r.Verdict == quota.Tripped {
		pm.add(pm.blocks, r.BlockedBy)
	}
}

// causeOf returns the cause label of an error of the store.
func causeOf(err error) quota.Cause {
	if failure, ok := errors.AsType[*quota.StoreError](err); ok {
		return failure.Cause
	}
	return quota.CauseConnection
}
