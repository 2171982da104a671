// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Replica is one live process that decides checks.
type Replica struct {
	Name string `json:"name"`
	// Revision is the registry revision that it runs.
	Revision int64 `json:"revision"`
	// Skips is the number of plans that it cannot decode.
	Skips int `json:"skips,omitempty"`
}

// policyList is the answer of GET /v1/policies.
type policyList struct {
	Version  string          `json:"version,omitempty"`
	Revision int64           `json:"revision"`
	Policies []policySummary `json:"policies"`
	Replicas []Replica       `json:"replicas"`
	// Unready is absent without a leader.
	Unready *plan.Unready `json:"notReady,omitempty"`
}

type policySummary struct {
	Name   string         `json:"name"`
	Mode   plan.Mode      `json:"mode"`
	Limits []limitSummary `json:"limits"`
	// Reservations is absent unless the policy takes reservations.
	Reservations reservationsSummary `json:"reservations,omitzero"`
	// LateCharges is absent unless large hits of Envoy are charges.
	LateCharges plan.LateCharges `json:"lateCharges,omitzero"`
}

type reservationsSummary struct {
	MaxTTL  string `json:"maxTTL"`
	MaxOpen int64  `json:"maxOpen"`
}

type limitSummary struct {
	Name      string         `json:"name"`
	Algorithm plan.Algorithm `json:"algorithm"`
	Threshold int64          `json:"threshold"`
	Window    string         `json:"window,omitempty"`
	// Calendar is in place of the window.
	Calendar string `json:"calendar,omitempty"`
	// Candidate is absent unless checks are judged by other numbers too.
	Candidate candidateSummary `json:"candidate,omitzero"`
}

// candidateSummary has the numbers of the candidate of a limit that differ from those of the policy.
type candidateSummary struct {
	Threshold int64  `json:"threshold,omitempty"`
	Burst     int64  `json:"burst,omitempty"`
	Window    string `json:"window,omitempty"`
}

// policies serves GET /v1/policies: the plans in force, sorted by name.
func (h *Handler) policies(w http.ResponseWriter, _ *http.Request) {
	snapshot := h.Engine.Snapshot()
	if snapshot == nil {
		writeProblem(w, http.StatusServiceUnavailable, notReady())
		return
	}
	list := policyList{
		Version:  h.Version,
		Revision: snapshot.Revision(),
		Policies: make([]policySummary, 0, len(snapshot.Plans())),
		Replicas: []Replica{},
	}
	for _, p := range snapshot.Plans() {
		list.Policies = append(list.Policies, summaryOf(p))
	}
	if h.Replicas != nil {
		list.Replicas = append(list.Replicas, h.Replicas()...)
	}
	if h.Unready != nil {
		list.Unready = h.Unready()
	}
	writeJSON(w, http.StatusOK, answer.TypeJSON, &list)
}

func summaryOf(p *plan.Plan) policySummary {
	s := policySummary{
		Name: p.ID(), Mode: p.Mode, Limits: make([]limitSummary, 0, len(p.Limits)), LateCharges: p.LateCharges,
	}
	if r := p.Reservations; r.Allowed() {
		s.Reservations = reservationsSummary{MaxTTL: plan.FormatMillis(r.MaxTTLMillis), MaxOpen: r.MaxOpen}
	}
	for _, l := range p.Limits {
		summary := limitSummary{Name: l.Name, Algorithm: l.Algorithm, Threshold: l.Threshold}
		summary.Window, summary.Calendar = windowTexts(l.Window(), l.Calendar)
		s.Limits = append(s.Limits, summary)
	}
	for _, c := range p.Candidates {
		at := slices.IndexFunc(s.Limits, func(l limitSummary) bool { return l.Name == c.Name })
		s.Limits[at].Candidate = candidateSummary{Threshold: c.Threshold, Burst: c.Burst, Window: plan.FormatMillis(c.WindowMillis)}
	}
	return s
}

// windowTexts describes the window or the calendar; the other text is empty.
func windowTexts(window time.Duration, calendar *plan.Calendar) (windowText, calendarText string) {
	if calendar != nil {
		return "", calendar.String()
	}
	return plan.FormatMillis(window.Milliseconds()), ""
}
