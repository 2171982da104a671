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

// The calls below change the state of keys although they are never denied. A caller that disconnects
// does not cancel them.

// commit serves POST /v1/commit.
func (h *Handler) commit(w http.ResponseWriter, r *http.Request) {
	q, commit := newRequest(), &limiter.Commit{}
	if !h.readRequest(w, r, q, func(_ *request, body []byte) error { return decodeCommit(body, commit) }) {
		return
	}
	defer q.release()
	committed, err := h.Engine.Commit(context.WithoutCancel(r.Context()), commit)
	if err != nil {
		h.writeCheckError(w, r, q, h.answerOptions(), err)
		return
	}
	body := httptypes.Committed{Committed: committed.Found(), Policies: []httptypes.CommittedPolicy{}, Revision: committed.Revision}
	for i := range committed.Policies {
		p := &committed.Policies[i]
		body.Policies = append(body.Policies, httptypes.CommittedPolicy{
			Policy: p.Policy, Override: p.Override, Exception: p.Exception, Committed: p.Committed, Gone: p.Gone,
			Cost: p.Cost, Estimate: p.Estimate, Limits: limitStates(p.Limits),
		})
	}
	writeJSON(w, http.StatusOK, answer.TypeJSON, &body)
}

// renew serves POST /v1/renew.
func (h *Handler) renew(w http.ResponseWriter, r *http.Request) {
	q, renew := newRequest(), &limiter.Renew{}
	if !h.readRequest(w, r, q, func(_ *request, body []byte) error { return decodeRenew(body, renew) }) {
		return
	}
	defer q.release()
	renewed, err := h.Engine.Renew(context.WithoutCancel(r.Context()), renew)
	if err != nil {
		h.writeCheckError(w, r, q, h.answerOptions(), err)
		return
	}
	writeJSON(w, http.StatusOK, answer.TypeJSON, &httptypes.Renewed{
		Renewed: true, Policies: append([]limiter.RenewedPolicy{}, renewed.Policies...), Revision: renewed.Revision,
	})
}

// charge serves POST /v1/charge.
func (h *Handler) charge(w http.ResponseWriter, r *http.Request) {
	q, charge := newRequest(), &limiter.Charge{}
	if !h.readRequest(w, r, q, func(q *request, body []byte) error { return q.decodeCharge(body, charge) }) {
		return
	}
	charge.Check = q.check
	charged, err := h.Engine.Charge(context.WithoutCancel(r.Context()), charge)
	if err != nil {
		h.writeCheckError(w, r, q, h.answerOptions(), err)
		return
	}
	writeJSON(w, http.StatusOK, answer.TypeJSON, &httptypes.Charged{
		Charged: charged.Charged, Limits: limitStates(charged.Limits), Revision: charged.Revision,
	})
	q.release()
}

func limitStates(limits []limiter.LimitState) []answer.LimitState {
	states := make([]answer.LimitState, len(limits))
	for i := range limits {
		states[i] = answer.LimitStateOf(&limits[i])
	}
	return states
}
