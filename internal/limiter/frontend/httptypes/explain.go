// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httptypes

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Explanation is the answer of POST /v1/explain.
type Explanation struct {
	Decision ExplainedDecision `json:"decision"`
	Policies []ExplainedPolicy `json:"policies"`
	// HiddenPolicies is the number of policies that apply and that the caller may not read.
	HiddenPolicies int        `json:"hiddenPolicies"`
	NearMisses     []NearMiss `json:"nearMisses"`
	// HiddenNearMisses is the number of near misses that the caller may not read, MoreNearMisses the number
	// beyond the length of the list.
	HiddenNearMisses int   `json:"hiddenNearMisses"`
	MoreNearMisses   int   `json:"moreNearMisses"`
	Revision         int64 `json:"revision"`
}

// RemoveByName removes the near misses of policies without matches, which no request can meet, and returns
// their number.
func (x *Explanation) RemoveByName() int {
	before := len(x.NearMisses)
	x.NearMisses = slices.DeleteFunc(x.NearMisses, func(m NearMiss) bool { return m.Reason == limiter.NearByName })
	return before - len(x.NearMisses)
}

// ExplainedDecision is the decision as a peek. Policy, Limit and Override are empty if the caller
// may not read the policy.
type ExplainedDecision struct {
	Allowed      bool             `json:"allowed"`
	Reason       limiter.Reason   `json:"reason"`
	Policy       string           `json:"policy"`
	Limit        string           `json:"limit"`
	Override     string           `json:"override,omitempty"`
	RetryAfterMs int64            `json:"retryAfterMs,omitempty"`
	Degraded     plan.FailureMode `json:"degraded,omitempty"`
}

// ExplainedPolicy is a policy that applies.
type ExplainedPolicy struct {
	Policy string    `json:"policy"`
	Mode   plan.Mode `json:"mode"`
	// Match is the index of the match that holds; nil if the check names the policy.
	Match       *int               `json:"match,omitempty"`
	Descriptor  *int               `json:"descriptor,omitempty"`
	Allowed     bool               `json:"allowed"`
	Reason      limiter.Reason     `json:"reason"`
	Limit       string             `json:"limit,omitempty"`
	Key         []ExplainedKeyPart `json:"key"`
	KeyHash     string             `json:"keyHash,omitempty"`
	Override    string             `json:"override,omitempty"`
	Group       string             `json:"group,omitempty"`
	Action      plan.Action        `json:"action,omitempty"`
	Exception   *Exception         `json:"exception,omitempty"`
	Blocked     bool               `json:"blocked"`
	BlockedBy   string             `json:"blockedBy,omitempty"`
	BlockLeftMs int64              `json:"blockLeftMs,omitempty"`
	Limits      []ExplainedLimit   `json:"limits"`
}

// ExplainedKeyPart is a part of a key.
type ExplainedKeyPart = limiter.ExplainedKeyPart

// ExplainedLimit is the state of a limit.
type ExplainedLimit struct {
	answer.LimitState

	Algorithm plan.Algorithm `json:"algorithm"`
	Window    string         `json:"window,omitempty"`
	// Calendar is in place of the window.
	Calendar string `json:"calendar,omitempty"`
}

// NearMiss is a policy that nearly applies.
type NearMiss struct {
	Policy string             `json:"policy"`
	Reason limiter.NearReason `json:"reason"`
	// Match is the index of a match, if the reason is about one.
	Match  *int       `json:"match,omitempty"`
	Field  plan.Field `json:"field,omitempty"`
	Wants  []string   `json:"wants,omitempty"`
	Got    []string   `json:"got,omitempty"`
	Detail string     `json:"detail,omitempty"`
	// Unverified is true if the expression of the match was not evaluated.
	Unverified bool `json:"unverified,omitempty"`
}
