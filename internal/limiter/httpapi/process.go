// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-dev/weir/internal/limiter/answer"
)

// Process is the state of a process and of its Redis.
type Process struct {
	Version string `json:"version,omitempty"`
	// Redis is nil if the process counts in its own memory.
	Redis        *Redis        `json:"redis,omitempty"`
	Certificates []Certificate `json:"certificates"`
}

// Redis is the state of Redis: see redisclient.Diagnosis.
type Redis struct {
	Servers      []string `json:"servers"`
	OldestTested string   `json:"oldestTested,omitempty"`
	Evictions    []string `json:"evictions"`
	MemoryUse    float64  `json:"memoryUse"`
	Problems     []string `json:"problems"`
}

// Certificate is a certificate of a process.
type Certificate struct {
	Name    string    `json:"name"`
	Expires time.Time `json:"expires"`
}

// ProcessFunc returns the facts. It writes to Redis, and is called once at a time.
type ProcessFunc func(ctx context.Context) *Process

// process serves GET /v1/process.
func (h *Handler) process(w http.ResponseWriter, r *http.Request) {
	if !h.describing.TryLock() {
		writeProblem(w, http.StatusServiceUnavailable, answer.Problem{
			Code: codeUnavailable, Detail: "Another request for the state of this process is running.", RetryAfter: 1,
		})
		return
	}
	defer h.describing.Unlock()
	writeJSON(w, http.StatusOK, answer.TypeJSON, h.Process(r.Context()))
}
