// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// ProcessFunc returns the facts. It writes to Redis, and is called once at a time.
type ProcessFunc func(ctx context.Context) *httptypes.Process

// process serves GET /v1/process.
func (h *Handler) process(w http.ResponseWriter, r *http.Request) {
	if !h.describing.TryLock() {
		h.writeStateError(w, r, busy("Another request for the state of this process is running."))
		return
	}
	defer h.describing.Unlock()
	writeJSON(w, http.StatusOK, answer.TypeJSON, h.Process(r.Context()))
}
