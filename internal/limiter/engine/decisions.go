// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/traffic"
)

// Decisions visits the counters of decisions. With DetailNamespace, the counters of a Namespace
// have the policy "<namespace>/*".
func (e *Engine) Decisions(visit func(policy string, n limiter.DecisionCounts)) {
	v := e.active.Load()
	if v == nil {
		return
	}
	seen := make(map[*policyMetrics]bool, v.policies.Len())
	for _, p := range v.policies.All() {
		pm := p.series
		if seen[pm] { // the policies of a Namespace share theirs
			continue
		}
		seen[pm] = true
		if n := pm.counts(); n != (limiter.DecisionCounts{}) {
			visit(pm.owner.id(), n)
		}
	}
}

// Sightings visits the sightings of every policy.
func (e *Engine) Sightings(visit func(*traffic.Sightings)) {
	v := e.active.Load()
	if v == nil {
		return
	}
	for _, p := range v.policies.All() {
		visit(&p.sightings)
	}
}

// id returns "<namespace>/<name>", or "<namespace>/*" for a Namespace.
func (o seriesOwner) id() string {
	if o.policy == "" {
		return o.namespace + "/*"
	}
	return o.namespace + "/" + o.policy
}

// counts adds up the series of decisions and candidates. The indexes of labels are the places in counters.
func (pm *policyMetrics) counts() (n limiter.DecisionCounts) {
	for key, counter := range pm.all().All() {
		if key.counter == decisionsTotal {
			addDecisionCounts(&n, key.labels[1], valueOf(counter))
		}
		if key.counter == candidatesTotal {
			addCandidateCounts(&n, key.labels[1], key.labels[2], valueOf(counter))
		}
	}
	return n
}

func valueOf(counter prometheus.Counter) uint64 {
	var m dto.Metric
	_ = counter.Write(&m) // fails only with an exemplar, which none has
	return uint64(m.GetCounter().GetValue())
}

// addDecisionCounts adds the value of a series of decisions.
func addDecisionCounts(n *limiter.DecisionCounts, verdict string, value uint64) {
	switch verdict {
	case verdictDenied, verdictDegradedDenied:
		n.Denied += value
	case verdictShadowDenied:
		n.ShadowDenied += value
	default:
		n.Allowed += value
	}
}

// addCandidateCounts adds the value of a series of candidates.
func addCandidateCounts(n *limiter.DecisionCounts, live, candidate string, value uint64) {
	switch {
	case live == verdictAllowed && candidate == verdictDenied:
		n.CandidateDenied += value
	case live == verdictDenied && candidate == verdictAllowed:
		n.CandidateAllowed += value
	}
}
