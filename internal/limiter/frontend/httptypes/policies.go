// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httptypes

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// PolicyList is the answer of GET /v1/policies.
type PolicyList struct {
	Version  string `json:"version,omitempty"`
	Revision int64  `json:"revision"`
	// Count is the number of policies in force, also the ones that the list leaves out.
	Count int `json:"count"`
	// Policies is absent on ports other than the operator port without a token.
	Policies []PolicySummary `json:"policies,omitzero"`
	Replicas []Replica       `json:"replicas"`
	// Unready is absent without a leader, and on ports other than the operator port.
	Unready *plan.Unready `json:"notReady,omitempty"`
}

// PolicySummary is one policy in force.
type PolicySummary struct {
	Name   string         `json:"name"`
	Mode   plan.Mode      `json:"mode"`
	Limits []LimitSummary `json:"limits"`
	// Reservations is absent unless the policy takes reservations.
	Reservations ReservationsSummary `json:"reservations,omitzero"`
	// Slices is absent unless the policy has slices.
	Slices SlicesSummary `json:"slices,omitzero"`
	// LateCharges is absent unless large hits of Envoy are charges.
	LateCharges plan.LateCharges `json:"lateCharges,omitzero"`
}

// SlicesSummary bounds the slices of a policy.
type SlicesSummary struct {
	MaxPercent int64  `json:"maxPercent"`
	MaxAge     string `json:"maxAge"`
}

// ReservationsSummary bounds the reservations of a policy.
type ReservationsSummary struct {
	MaxTTL  string `json:"maxTTL"`
	MaxOpen int64  `json:"maxOpen"`
	// Cost is the expression that computes the cost of a commit; empty if commits name it.
	Cost string `json:"cost,omitempty"`
	// BlockOn is "Commit" if commits start blocks, in place of denials; else empty.
	BlockOn string `json:"blockOn,omitempty"`
}

// LimitSummary is one limit of a policy.
type LimitSummary struct {
	Name      string         `json:"name"`
	Algorithm plan.Algorithm `json:"algorithm"`
	Threshold int64          `json:"threshold"`
	Window    string         `json:"window,omitempty"`
	// Calendar is in place of the window.
	Calendar string `json:"calendar,omitempty"`
	// Candidate is absent unless checks are judged by other numbers too.
	Candidate CandidateSummary `json:"candidate,omitzero"`
}

// CandidateSummary has the numbers of a candidate that differ from the numbers of its limit.
type CandidateSummary struct {
	Threshold int64  `json:"threshold,omitempty"`
	Burst     int64  `json:"burst,omitempty"`
	Window    string `json:"window,omitempty"`
}

// Replica is one live process that decides checks.
type Replica struct {
	Name string `json:"name"`
	// Revision is the registry revision that it runs.
	Revision int64 `json:"revision"`
	// Skips is the number of plans that it cannot decode.
	Skips int `json:"skips,omitempty"`
}

// Process is the answer of GET /v1/process: the state of a process and of its Redis.
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
