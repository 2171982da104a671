// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// plan serves GET /v1/plan: the plan of one policy, as plan.Encode returns it.
func (h *Handler) plan(w http.ResponseWriter, r *http.Request) {
	token, ok := h.bearerToken(w, r)
	if !ok {
		return
	}
	q, err := listQueryOf(r.URL.RawQuery)
	if err == nil && q.Policy == "" {
		err = inField("policy", invalid("is required"))
	}
	if err != nil {
		h.writeStateError(w, r, err)
		return
	}
	if _, ok := h.authorizeVerb(w, r, token, VerbInspect, q.Policy); !ok {
		return
	}
	encoded, err := h.encodedPlan(q.Policy)
	if err != nil {
		h.writeStateError(w, r, err)
		return
	}
	write(w, http.StatusOK, answer.TypeJSON, encoded)
}

func (h *Handler) encodedPlan(policy string) ([]byte, error) {
	snapshot := h.Engine.Snapshot()
	if snapshot == nil {
		return nil, limiter.ErrNotReady
	}
	p := snapshot.Lookup(policy)
	if p == nil {
		return nil, &limiter.UnknownPolicyError{Policy: policy}
	}
	return plan.Encode(p)
}
