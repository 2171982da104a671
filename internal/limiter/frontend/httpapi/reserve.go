// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// reserve serves POST /v1/reserve.
func (h *Handler) reserve(w http.ResponseWriter, r *http.Request) {
	q, reserve := newRequest(), &limiter.Reserve{}
	if !h.readRequest(w, r, q, func(q *request, body []byte) error { return q.decodeReserve(body, reserve) }) {
		return
	}
	reserve.Check = q.check
	decision, err := h.Engine.Reserve(r.Context(), reserve)
	h.writeOutcome(w, r, q, h.answerOptions(), decision, err)
}

// changing serves a call that changes the state of keys although it is never denied. A caller that disconnects does not
// cancel it.
func changing[C, R any](
	h *Handler, decode func(q *request, body []byte, call *C) error,
	do func(e Engine, ctx context.Context, call *C) (R, error), bodyOf func(result R) any,
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, call := newRequest(), new(C)
		if !h.readRequest(w, r, q, func(q *request, body []byte) error { return decode(q, body, call) }) {
			return
		}
		result, err := do(h.Engine, context.WithoutCancel(r.Context()), call)
		if err != nil {
			h.writeCheckError(w, r, q, h.answerOptions(), err)
			return
		}
		writeJSON(w, http.StatusOK, answer.TypeJSON, bodyOf(result))
		q.release()
	}
}

// committedOf returns the answer of POST /v1/commit.
func committedOf(committed *limiter.Committed) any {
	body := &httptypes.Committed{Committed: committed.Found(), Policies: []httptypes.CommittedPolicy{}, Revision: committed.Revision}
	for i := range committed.Policies {
		p := &committed.Policies[i]
		body.Policies = append(body.Policies, httptypes.CommittedPolicy{
			Policy: p.Policy, Override: p.Override, Exception: p.Exception, Committed: p.Committed, Gone: p.Gone,
			Cost: p.Cost, Estimate: p.Estimate, Limits: limitStates(p.Limits),
		})
	}
	return body
}

// renewedOf returns the answer of POST /v1/renew.
func renewedOf(r *limiter.Renewed) any {
	return &httptypes.Renewed{Renewed: true, Policies: append([]limiter.RenewedPolicy{}, r.Policies...), Revision: r.Revision}
}

// chargedOf returns the answer of POST /v1/charge.
func chargedOf(c *limiter.Charged) any {
	return &httptypes.Charged{Charged: c.Charged, Limits: limitStates(c.Limits), Revision: c.Revision}
}

func limitStates(limits []limiter.LimitState) []answer.LimitState {
	states := make([]answer.LimitState, len(limits))
	for i := range limits {
		states[i] = answer.LimitStateOf(&limits[i])
	}
	return states
}
