// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httptypes

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// TargetList is the answer of GET /v1/targets.
type TargetList struct {
	Policies []TargetedPolicy `json:"policies"`
	// HiddenPolicies is the number of policies that the caller may not list.
	HiddenPolicies int `json:"hiddenPolicies"`
}

// TargetedPolicy is a policy that selects requests, by targets or otherwise.
type TargetedPolicy struct {
	Policy string    `json:"policy"`
	Mode   plan.Mode `json:"mode"`
	// LastCheck is when a check last applied, by any target or none; nil if none did in the last 24 hours.
	LastCheck *time.Time     `json:"lastCheck,omitempty"`
	Targets   []PolicyTarget `json:"targets"`
}

// PolicyTarget is a Gateway or route that a policy names.
type PolicyTarget struct {
	Target string `json:"target"`
	// LastCheck is when a check last applied that this target selected.
	LastCheck *time.Time `json:"lastCheck,omitempty"`
}
