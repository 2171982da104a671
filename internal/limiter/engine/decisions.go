// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-dev/weir/internal/limiter"
)

// Decisions visits the counters of decisions. With DetailNamespace, those of each Namespace have the
// policy "<namespace>/*".
func (e *Engine) Decisions(visit func(policy string, n limiter.DecisionCounts)) {
	v := e.active.Load()
	if v == nil {
		return
	}
	seen := make(map[*policyMetrics]bool, len(v.series))
	for _, pm := range v.series {
		if seen[pm] { // the policies of a Namespace share theirs
			continue
		}
		seen[pm] = true
		if n := pm.counts(); n != (limiter.DecisionCounts{}) {
			visit(pm.owner.id(), n)
		}
	}
}

// id returns "<namespace>/<name>", or "<namespace>/*" for a Namespace.
func (o seriesOwner) id() string {
	if o.policy == "" {
		return o.namespace + "/*"
	}
	return o.namespace + "/" + o.policy
}

// counts adds up the series of decisions.
func (pm *policyMetrics) counts() (n limiter.DecisionCounts) {
	for key, counter := range *pm.created.Load() {
		if key.vector != pm.decisions {
			continue
		}
		var m dto.Metric
		if counter.Write(&m) != nil {
			continue // cannot happen: it has no exemplar
		}
		value := uint64(m.GetCounter().GetValue())
		switch key.labels[1] {
		case verdictDenied, verdictDegradedDenied:
			n.Denied += value
		case verdictShadowDenied:
			n.ShadowDenied += value
		default:
			n.Allowed += value
		}
	}
	return n
}
