// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// maxNearMisses bounds the near misses that an explanation lists.
const maxNearMisses = 20

// explanation is the answer of POST /v1/explain.
type explanation struct {
	Decision explainedDecision `json:"decision"`
	Policies []explainedPolicy `json:"policies"`
	// HiddenPolicies is the number of policies that apply and that the caller may not read.
	HiddenPolicies int        `json:"hiddenPolicies"`
	NearMisses     []nearMiss `json:"nearMisses"`
	// HiddenNearMisses are those that the caller may not read, MoreNearMisses those beyond
	// maxNearMisses.
	HiddenNearMisses int   `json:"hiddenNearMisses"`
	MoreNearMisses   int   `json:"moreNearMisses"`
	Revision         int64 `json:"revision"`
}

// explainedDecision is the decision as a peek. Policy, Limit and Override are empty if the caller
// may not read the policy.
type explainedDecision struct {
	Allowed      bool             `json:"allowed"`
	Reason       limiter.Reason   `json:"reason"`
	Policy       string           `json:"policy"`
	Limit        string           `json:"limit"`
	Override     string           `json:"override,omitempty"`
	RetryAfterMs int64            `json:"retryAfterMs,omitempty"`
	Degraded     plan.FailureMode `json:"degraded,omitempty"`
}

type explainedPolicy struct {
	Policy      string             `json:"policy"`
	Mode        plan.Mode          `json:"mode"`
	Match       *int               `json:"match,omitempty"`
	Descriptor  *int               `json:"descriptor,omitempty"`
	Allowed     bool               `json:"allowed"`
	Reason      limiter.Reason     `json:"reason"`
	Limit       string             `json:"limit,omitempty"`
	Key         []explainedKeyPart `json:"key"`
	KeyHash     string             `json:"keyHash,omitempty"`
	Override    string             `json:"override,omitempty"`
	Action      plan.Action        `json:"action,omitempty"`
	Blocked     bool               `json:"blocked"`
	BlockedBy   string             `json:"blockedBy,omitempty"`
	BlockLeftMs int64              `json:"blockLeftMs,omitempty"`
	Limits      []explainedLimit   `json:"limits"`
}

type explainedKeyPart struct {
	Type  plan.KeyPartType `json:"type,omitempty"`
	Name  string           `json:"name,omitempty"`
	Value string           `json:"value"`
}

type explainedLimit struct {
	answer.LimitState

	Algorithm plan.Algorithm `json:"algorithm"`
	Window    string         `json:"window,omitempty"`
	// Calendar is in place of the window.
	Calendar string `json:"calendar,omitempty"`
}

type nearMiss struct {
	Policy string             `json:"policy"`
	Reason limiter.NearReason `json:"reason"`
	Match  *int               `json:"match,omitempty"`
	Field  plan.Field         `json:"field,omitempty"`
	Wants  []string           `json:"wants,omitempty"`
	Got    []string           `json:"got,omitempty"`
	Detail string             `json:"detail,omitempty"`

	Unverified bool `json:"unverified,omitempty"`
}

// explanationOf returns what the caller may read of the explanation, or the error of the
// Authorizer.
func explanationOf(ctx context.Context, x *limiter.Explanation, rights *ReadRights) (*explanation, error) {
	out := &explanation{Policies: []explainedPolicy{}, NearMisses: []nearMiss{}, Revision: x.Decision.Revision}
	for i := range x.Policies {
		readable, err := rights.ToPolicy(ctx, x.Policies[i].Policy)
		if err != nil {
			return nil, err
		}
		if !readable {
			out.HiddenPolicies++
			continue
		}
		out.Policies = append(out.Policies, explainedPolicyOf(&x.Policies[i]))
	}
	if err := out.setDecision(ctx, &x.Decision, rights); err != nil {
		return nil, err
	}
	return out, out.addNearMisses(ctx, x.NearMisses, rights)
}

func (out *explanation) setDecision(ctx context.Context, d *limiter.Decision, rights *ReadRights) error {
	out.Decision = explainedDecision{
		Allowed: d.Allowed, Reason: d.Reason, Degraded: d.Degraded,
		RetryAfterMs: answer.RoundUp(d.RetryAfter, time.Millisecond),
	}
	if d.Policy == "" {
		return nil
	}
	readable, err := rights.ToPolicy(ctx, d.Policy)
	if readable {
		out.Decision.Policy, out.Decision.Limit, out.Decision.Override = d.Policy, d.Limit, d.Override
	}
	return err
}

// addNearMisses adds those that the caller may read, until the list is full.
func (out *explanation) addNearMisses(ctx context.Context, misses []limiter.NearMiss, rights *ReadRights) error {
	for i := range misses {
		if len(out.NearMisses) == maxNearMisses {
			out.MoreNearMisses = len(misses) - i
			return nil
		}
		readable, err := rights.ToPolicy(ctx, misses[i].Policy)
		if err != nil {
			return err
		}
		if !readable {
			out.HiddenNearMisses++
			continue
		}
		out.NearMisses = append(out.NearMisses, nearMissOf(&misses[i]))
	}
	return nil
}

func explainedPolicyOf(p *limiter.ExplainedPolicy) explainedPolicy {
	out := explainedPolicy{
		Policy: p.Policy, Mode: p.Mode, Allowed: p.Allowed, Reason: p.Reason, Limit: p.Limit,
		Key: make([]explainedKeyPart, len(p.Key)), KeyHash: p.KeyHash, Override: p.Override, Action: p.Action,
		Blocked: p.Blocked, BlockedBy: p.BlockedBy, BlockLeftMs: answer.RoundUp(p.BlockLeft, time.Millisecond),
		Limits: make([]explainedLimit, len(p.Limits)),
	}
	if p.Match != limiter.Named {
		out.Match = &p.Match
	}
	if p.Descriptor != plan.AllDescriptors {
		out.Descriptor = &p.Descriptor
	}
	for i, part := range p.Key {
		out.Key[i] = explainedKeyPart(part)
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		explained := explainedLimit{LimitState: answer.LimitStateOf(l), Algorithm: l.Algorithm}
		explained.Window, explained.Calendar = windowTexts(l.Window, l.Calendar)
		out.Limits[i] = explained
	}
	return out
}

func nearMissOf(miss *limiter.NearMiss) nearMiss {
	out := nearMiss{
		Policy: miss.Policy, Reason: miss.Reason, Field: miss.Field, Wants: miss.Wants, Got: miss.Got, Detail: miss.Detail,
		Unverified: miss.Unverified,
	}
	if miss.Reason == limiter.NearMismatch || miss.Reason == limiter.NearDisabled {
		out.Match = &miss.Match
	}
	return out
}
