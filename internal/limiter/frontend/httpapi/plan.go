// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// plan serves GET /v1/plan: the plan of one policy, as plan.Encode returns it.
func (h *Handler) plan(w http.ResponseWriter, r *http.Request, token string) error {
	q, err := listQueryOf(r.URL.RawQuery)
	if err == nil && q.Policy == "" {
		err = inField("policy", invalid("is required"))
	}
	if err == nil {
		_, err = h.authorizeVerb(r.Context(), token, VerbInspect, q.Policy)
	}
	if err != nil {
		return err
	}
	p, err := h.planOf(q.Policy)
	if err != nil {
		return err
	}
	encoded, err := plan.Encode(p)
	if err == nil {
		write(w, http.StatusOK, answer.TypeJSON, encoded)
	}
	return err
}

// planOf returns the plan of the policy.
func (h *Handler) planOf(policy string) (*plan.Plan, error) {
	snapshot := h.Engine.Snapshot()
	if snapshot == nil {
		return nil, limiter.ErrNotReady
	}
	if p := snapshot.Lookup(policy); p != nil {
		return p, nil
	}
	return nil, &limiter.UnknownPolicyError{Policy: policy}
}
