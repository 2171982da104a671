// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// Values of the label verdict.
const (
	verdictAllowed      = "allowed"
	verdictDenied       = "denied"
	verdictShadowDenied = "shadow_denied"
	verdictExempt       = "exempt"
)

// metrics holds the metrics of decisions. docs/metrics.md describes them.
type metrics struct {
	decisions *prometheus.CounterVec
	blocks    *prometheus.CounterVec
	degraded  *prometheus.CounterVec
	failures  *prometheus.CounterVec // of expressions
	ignored   *prometheus.CounterVec // requested limits
	cached    *prometheus.CounterVec // denials
	duration  prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
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
			Help: "Decisions made by failureMode because Redis did not answer in time.",
		}, []string{"policy", "mode", "cause"}),
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
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_decision_duration_seconds",
			Help: "Time from the arrival of a check at the engine to its decision.",
			Buckets: []float64{
				50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 750e-6, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3,
				10e-3, 20e-3, 50e-3, 100e-3, 250e-3,
			},
		}),
	}
	r.MustRegister(m.decisions, m.blocks, m.degraded, m.failures, m.ignored, m.cached, m.duration)
	return m
}

// forget deletes the series of policies that the next view no longer has.
func (m *metrics) forget(previous, next *view) {
	for _, p := range previous.snapshot.Plans() {
		if next.policies[p] != nil || next.snapshot.Lookup(p.ID()) != nil {
			continue
		}
		labels := prometheus.Labels{"namespace": p.Namespace, "policy": p.Name}
		m.decisions.DeletePartialMatch(labels)
		m.blocks.DeletePartialMatch(labels)
		m.failures.DeletePartialMatch(labels)
		m.ignored.DeletePartialMatch(labels)
		m.cached.DeletePartialMatch(labels)
		m.degraded.DeletePartialMatch(prometheus.Labels{"policy": p.ID()})
	}
}

// policyMetrics holds the series of one policy. Each series is created when it is first
// counted.
type policyMetrics struct {
	decisions *prometheus.CounterVec
	blocks    *prometheus.CounterVec
	failures  *prometheus.CounterVec

	allowed, exempt, cached func() prometheus.Counter
	denied                  sync.Map // limit -> prometheus.Counter
}

// viewMetrics holds the series of the policies of one view.
type viewMetrics map[*policy]*policyMetrics

// forView returns the series of the policies of the view. Policies that the previous view
// shares keep theirs.
func (m *metrics) forView(v *view, previous viewMetrics) viewMetrics {
	series := make(viewMetrics, len(v.policies))
	for _, p := range v.policies {
		if series[p] = previous[p]; series[p] == nil {
			series[p] = m.policy(p.plan)
		}
	}
	return series
}

func (m *metrics) policy(p *plan.Plan) *policyMetrics {
	labels := prometheus.Labels{"namespace": p.Namespace, "policy": p.Name}
	pm := &policyMetrics{
		decisions: m.decisions.MustCurryWith(labels),
		blocks:    m.blocks.MustCurryWith(labels),
		failures:  m.failures.MustCurryWith(labels),
	}
	pm.allowed = sync.OnceValue(func() prometheus.Counter {
		return pm.decisions.WithLabelValues("", verdictAllowed)
	})
	pm.exempt = sync.OnceValue(func() prometheus.Counter {
		return pm.decisions.WithLabelValues("", verdictExempt)
	})
	pm.cached = sync.OnceValue(func() prometheus.Counter {
		return m.cached.WithLabelValues(p.Namespace, p.Name)
	})
	return pm
}

func (pm *policyMetrics) countDecision(p *policy, admitted bool, limit string) {
	if admitted {
		pm.allowed().Inc()
		return
	}
	counter, ok := pm.denied.Load(limit)
	if !ok {
		verdict := verdictDenied
		if !p.enforces() {
			verdict = verdictShadowDenied
		}
		counter, _ = pm.denied.LoadOrStore(limit, pm.decisions.WithLabelValues(limit, verdict))
	}
	counter.(prometheus.Counter).Inc() //nolint:forcetypeassert // only counters are stored
}

func (pm *policyMetrics) countBlock(limit string) { pm.blocks.WithLabelValues(limit).Inc() }

func (pm *policyMetrics) countExpressionError(field string) { pm.failures.WithLabelValues(field).Inc() }

// count counts the decision, once per policy and key. Participants that peek are not
// counted.
func (m *metrics) count(ev *evaluation, series viewMetrics, d *limiter.Decision, err error) {
	for _, p := range ev.exempt {
		series[p].exempt().Inc()
	}
	for _, r := range ev.outrightDenials {
		series[r.policy].countDecision(r.policy, false, "")
	}
	for _, f := range ev.failures {
		series[f.policy].countExpressionError(f.field)
	}
	for _, p := range ev.ignoredLimits {
		m.ignored.WithLabelValues(p.plan.Namespace, p.plan.Name).Inc()
	}
	for i := range ev.participants {
		m.countParticipant(ev, i, series, d, err)
	}
}

func (m *metrics) countParticipant(ev *evaluation, i int, series viewMetrics, d *limiter.Decision, err error) {
	pt := &ev.participants[i]
	switch {
	case pt.peek:
	case ev.reply != nil:
		series[pt.policy].countReply(pt, &ev.reply.Entries[i])
		if ev.reply.FromCache && pt.id == d.Policy {
			series[pt.policy].cached().Inc()
		}
	case d.Degraded == "": // denied without the store
		if pt.id == d.Policy {
			series[pt.policy].countDecision(pt.policy, false, d.Limit)
		}
	case err != nil:
		series[pt.policy].countDecision(pt.policy, pt.plan.FailureMode == plan.FailOpen, "")
		m.degraded.WithLabelValues(pt.id, string(pt.plan.FailureMode), string(causeOf(err))).Inc()
	}
}

func (pm *policyMetrics) countReply(pt *participant, r *script.EntryReply) {
	if r.Verdict == script.Admitted {
		pm.countDecision(pt.policy, true, "")
		return
	}
	_, limit := pt.denialReason(r)
	pm.countDecision(pt.policy, false, limit)
	if r.Verdict == script.Tripped {
		pm.countBlock(r.BlockedBy)
	}
}

// causeOf returns the cause label of an error of the store.
func causeOf(err error) script.Cause {
	if failure, ok := errors.AsType[*script.StoreError](err); ok {
		return failure.Cause
	}
	return script.CauseConnection
}
