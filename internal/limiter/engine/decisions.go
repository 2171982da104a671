// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/traffic"
)

// Decisions visits the counters of decisions. With DetailNamespace, the counters of a Namespace
// have the policy "<namespace>/*".
func (e *Engine) Decisions(visit func(policy string, n limiter.DecisionCounts)) {
	v := e.active.Load()
	if v == nil {
		return
	}
	seen := make(map[*series.Series]bool, v.policies.Len())
	for _, p := range v.policies.All() {
		pm := p.series
		if seen[pm] { // the policies of a Namespace share theirs
			continue
		}
		seen[pm] = true
		if n := counts(pm); n != (limiter.DecisionCounts{}) {
			visit(pm.ID(), n)
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

// counts adds up the series of decisions and candidates. The indexes of labels are the places in counters.
func counts(pm *series.Series) (n limiter.DecisionCounts) {
	for key, counter := range pm.All() {
		if key.Counter == series.DecisionsTotal {
			addDecisionCounts(&n, key.Labels[1], valueOf(counter))
		}
		if key.Counter == series.CandidatesTotal {
			addCandidateCounts(&n, key.Labels[1], key.Labels[2], valueOf(counter))
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
