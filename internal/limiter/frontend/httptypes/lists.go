// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httptypes

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// ListedKey is a key in a list.
type ListedKey struct {
	// Key has the parts of the key; a missing part is empty.
	Key []string `json:"key"`
	// KeyHash stands for the key in state calls. It is empty if the key is Cut.
	KeyHash string `json:"keyHash,omitempty"`
	// Masked is true if only the beginning of a part is shown, because it is the value of a header.
	Masked bool `json:"masked,omitempty"`
	// Cut is true if the key is too long to be kept, and only its beginning is shown.
	Cut bool `json:"cut,omitempty"`
}

// BlockList is the answer of GET /v1/blocks.
type BlockList struct {
	Blocks []ListedBlock `json:"blocks"`
	// Truncated is true if there are more blocks than the limit.
	Truncated bool `json:"truncated"`
	// HiddenPolicies is the number of policies with blocks that the caller may not list.
	HiddenPolicies int `json:"hiddenPolicies"`
}

// ListedBlock is a live block.
type ListedBlock struct {
	Policy string `json:"policy"`
	ListedKey
	// Limit is the limit that started the block; empty if an operator did.
	Limit  string `json:"limit"`
	LeftMs int64  `json:"leftMs"`
}

// Reports are the members that the answers about observed keys share.
type Reports struct {
	// Reported are the replicas whose observations are contained, Missing the live ones that did not
	// report in time.
	Reported []string `json:"reported"`
	Missing  []string `json:"missing"`
	// Since is when the replicas began to count decisions without a gap; nil if that is an hour ago or more.
	Since *time.Time `json:"since,omitempty"`
	// HiddenPolicies is the number of active policies that the caller may not list.
	HiddenPolicies int `json:"hiddenPolicies"`
}

// TopList is the answer of GET /v1/top.
type TopList struct {
	Policies []TopPolicy `json:"policies"`
	// Total has the decisions of the whole scope, also of hidden policies.
	Total DecisionSums `json:"total"`
	// LargestError is the largest error of a key, Dropped the number of denials and blocks that are
	// missing.
	LargestError int64 `json:"largestError"`
	Dropped      int64 `json:"dropped"`
	Reports
}

// TopPolicy is an active policy.
type TopPolicy struct {
	Policy string    `json:"policy"`
	Mode   plan.Mode `json:"mode,omitempty"`
	// Decisions is absent if nothing was decided in the last hour.
	Decisions *DecisionSums `json:"decisions,omitempty"`
	// Keys are the keys that were denied most often in the last Seconds. Others were denied at most
	// Unlisted times.
	Keys     []TopKey `json:"keys"`
	Unlisted int64    `json:"unlisted"`
	Seconds  int64    `json:"seconds"`
}

// TopKey is a key that was denied between Fewest and Count times.
type TopKey struct {
	ListedKey
	Denials
}

// Denials is a number of denials of a key, between Count - Error and Count.
type Denials struct {
	Count int64 `json:"count"`
	Error int64 `json:"error"`
}

// Fewest is the smallest true number of denials.
func (d Denials) Fewest() int64 { return d.Count - d.Error }

// DecisionSums are numbers of decisions.
type DecisionSums struct {
	LastMinute   DecisionCounts `json:"lastMinute"`
	Last5Minutes DecisionCounts `json:"last5Minutes"`
	LastHour     DecisionCounts `json:"lastHour"`
}

// DecisionCounts are the decisions of one period.
type DecisionCounts struct {
	Allowed      int64 `json:"allowed"`
	Denied       int64 `json:"denied"`
	ShadowDenied int64 `json:"shadowDenied"`
	// CandidateDenied and CandidateAllowed count verdicts that only a candidate reaches, as in limiter.Rates.
	CandidateDenied  int64 `json:"candidateDenied"`
	CandidateAllowed int64 `json:"candidateAllowed"`
}

// AllDenied includes what Shadow would have denied.
func (c DecisionCounts) AllDenied() int64 { return c.Denied + c.ShadowDenied }

// RateList is the answer of GET /v1/rates.
type RateList struct {
	// EndTime is the end of the last sample, which is the current one; each sample covers PeriodSeconds.
	EndTime       time.Time    `json:"endTime"`
	PeriodSeconds int          `json:"periodSeconds"`
	Total         RateSamples  `json:"total"`
	Policies      []PolicyRate `json:"policies"`
	Reports
}

// PolicyRate has the samples of one policy.
type PolicyRate struct {
	Policy string `json:"policy"`
	RateSamples
}

// RateSamples are decisions, one number for each sample, the oldest first.
type RateSamples struct {
	Allowed      []int64 `json:"allowed"`
	Denied       []int64 `json:"denied"`
	ShadowDenied []int64 `json:"shadowDenied"`
}

// FoundKeys is the answer of GET /v1/keys.
type FoundKeys struct {
	Keys []FoundKey `json:"keys"`
	// Truncated is true if there are more blocks than are searched, or more keys than are returned.
	Truncated bool `json:"truncated"`
	Reports
}

// FoundKey is a key in which the value appears: blocked, or denied in the last minutes, or both.
type FoundKey struct {
	Policy string `json:"policy"`
	ListedKey
	Blocked bool `json:"blocked"`
	// Limit and LeftMs are as in ListedBlock.
	Limit  string `json:"limit,omitempty"`
	LeftMs int64  `json:"leftMs,omitempty"`
	// Denials are 0 if no denial of the key is listed.
	Denials
}

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
