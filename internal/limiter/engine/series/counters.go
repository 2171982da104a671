// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Counter is a metric that counts for each policy.
type Counter int

// The metrics. Each has a help text below.
const (
	DecisionsTotal Counter = iota
	BlocksTotal
	DegradedTotal
	FailuresTotal // of expressions
	IgnoredTotal  // requested limits
	CachedTotal   // denials
	NewKeysTotal
	OverflowTotal
	NearTotal
	CandidatesTotal
	ReservationsTotal
	ChargesTotal
	DebtTotal
	DebtCutTotal
	UnheldTotal
)

// counters are the metrics, with the labels that follow the labels of the policy. docs/metrics.md describes them.
var counters = [...]struct {
	name, help string
	labels     []string
}{
	DecisionsTotal: {
		name:   "weir_decisions_total",
		help:   "Decisions, counted once per policy and key. limit is the limit that denied, else empty.",
		labels: []string{labelLimit, "verdict"},
	},
	BlocksTotal: {name: "weir_blocks_total", help: "Blocks started, by limit.", labels: []string{labelLimit}},
	DegradedTotal: {
		name:   "weir_degraded_decisions_total",
		help:   "Decisions made by failureMode because Redis did not answer in time, or because too many policies match or their expressions take too long.",
		labels: []string{"mode", "cause"},
	},
	FailuresTotal: {
		name:   "weir_expression_errors_total",
		help:   "CEL expressions of policies that failed for a request.",
		labels: []string{labelField},
	},
	IgnoredTotal: {
		name: "weir_requested_limits_ignored_total",
		help: "Limits requested by a descriptor that could not replace a limit of the policy.",
	},
	CachedTotal: {
		name: "weir_cached_denials_total",
		help: "Denials from memory, while the wait that Redis returned lasts.",
	},
	NewKeysTotal: {name: "weir_new_keys_total", help: "Keys without state that a decision created."},
	OverflowTotal: {
		name: "weir_overflow_decisions_total",
		help: "Decisions by the overflow budget, which new keys share during a flood or when memory is full.",
	},
	NearTotal: {
		name:   "weir_near_limit_total",
		help:   "Admitted checks that brought a key to the share of a limit that warnAt sets.",
		labels: []string{labelLimit},
	},
	CandidatesTotal: {
		name:   "weir_candidate_decisions_total",
		help:   "Checks by the verdicts of a limit and of its candidate, which denies nothing.",
		labels: []string{labelLimit, "live", "candidate"},
	},
	ReservationsTotal: {
		name:   "weir_reservations_total",
		help:   "Outcomes of reservations, counted once per policy and key.",
		labels: []string{"outcome"},
	},
	ChargesTotal: {
		name:   "weir_charges_total",
		help:   "Charges, counted once per policy and key. Repeated ones spent nothing.",
		labels: []string{"outcome"},
	},
	DebtTotal: {name: "weir_debt_units_total", help: "Units above the quota that commits and charges have spent."},
	DebtCutTotal: {
		name: "weir_debt_cut_units_total",
		help: "Units above the quota that were dropped because working them off would take over 720h.",
	},
	UnheldTotal: {
		name: "weir_unheld_checks_total",
		help: "Checks that a limit with Concurrency judged without a reservation.",
	},
}

// Labels that name a part of the policy. They are empty if all policies of a Namespace share the series.
const (
	labelLimit = "limit"
	labelField = "field"
)

// namesPart reports whether the first label of the counter names a part of the policy.
func (c Counter) namesPart() bool {
	labels := counters[c].labels
	return len(labels) > 0 && (labels[0] == labelLimit || labels[0] == labelField)
}

// newVectors registers the vectors of the counters.
func newVectors(r prometheus.Registerer) (vectors [len(counters)]*prometheus.CounterVec) {
	for i, c := range counters {
		labels := slices.Concat([]string{"namespace", "policy"}, c.labels)
		vectors[i] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: c.name, Help: c.help}, labels)
		r.MustRegister(vectors[i])
	}
	return vectors
}

// Detail determines how many series the metrics of decisions have.
type Detail string

// The values of Detail.
const (
	// DetailPolicy counts each policy and limit by itself. It is the default.
	DetailPolicy Detail = "Policy"
	// DetailNamespace counts all policies of a Namespace together: the labels policy, limit
	// and field are empty.
	DetailNamespace Detail = "Namespace"
)

// owner is the policy, or the Namespace, whose decisions are counted together.
type owner struct {
	namespace string
	policy    string // "" for all policies of the Namespace
}

// owner returns whose series count the decisions of the plan.
func (d Detail) owner(p *plan.Plan) owner {
	if d == DetailNamespace {
		return owner{namespace: p.Namespace}
	}
	return owner{namespace: p.Namespace, policy: p.Name}
}
