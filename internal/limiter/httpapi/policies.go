// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/answer"
	"github.com/weir-dev/weir/internal/limiter/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// policies serves GET /v1/policies: the plans in force, sorted by name.
func (h *Handler) policies(w http.ResponseWriter, r *http.Request) {
	snapshot := h.Engine.Snapshot()
	if snapshot == nil {
		writeProblem(w, http.StatusServiceUnavailable, notReady())
		return
	}
	list := httptypes.PolicyList{
		Version:  h.Version,
		Revision: snapshot.Revision(),
		Policies: make([]httptypes.PolicySummary, 0, len(snapshot.Plans())),
		Replicas: []httptypes.Replica{},
	}
	for _, p := range snapshot.Plans() {
		list.Policies = append(list.Policies, summaryOf(p))
	}
	if h.Replicas != nil {
		list.Replicas = append(list.Replicas, h.Replicas(r.Context())...)
	}
	if h.Unready != nil {
		list.Unready = h.Unready()
	}
	writeJSON(w, http.StatusOK, answer.TypeJSON, &list)
}

func summaryOf(p *plan.Plan) httptypes.PolicySummary {
	s := httptypes.PolicySummary{
		Name: p.ID(), Mode: p.Mode, Limits: make([]httptypes.LimitSummary, 0, len(p.Limits)), LateCharges: p.LateCharges,
	}
	if slices := p.Slices; slices.Allowed() {
		s.Slices = httptypes.SlicesSummary{MaxPercent: slices.MaxPercent, MaxAge: plan.FormatMillis(slices.MaxAgeMillis)}
	}
	if r := p.Reservations; r.Allowed() {
		s.Reservations = httptypes.ReservationsSummary{MaxTTL: plan.FormatMillis(r.MaxTTLMillis), MaxOpen: r.MaxOpen, Cost: r.Cost}
		if r.BlockOnCommit {
			s.Reservations.BlockOn = "Commit"
		}
	}
	for _, l := range p.Limits {
		summary := httptypes.LimitSummary{Name: l.Name, Algorithm: l.Algorithm, Threshold: l.Threshold}
		summary.Window, summary.Calendar = windowTexts(l.Window(), l.Calendar)
		s.Limits = append(s.Limits, summary)
	}
	for _, c := range p.Candidates {
		at := slices.IndexFunc(s.Limits, func(l httptypes.LimitSummary) bool { return l.Name == c.Name })
		s.Limits[at].Candidate = httptypes.CandidateSummary{Threshold: c.Threshold, Burst: c.Burst, Window: plan.FormatMillis(c.WindowMillis)}
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
