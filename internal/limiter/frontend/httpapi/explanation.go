// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// maxNearMisses bounds the near misses that an explanation lists.
const maxNearMisses = 20

// explanationOf returns what the caller may read of the explanation, or the error of the
// Authorizer.
func explanationOf(ctx context.Context, x *limiter.Explanation, rights *ReadRights) (*httptypes.Explanation, error) {
	out := &httptypes.Explanation{Policies: []httptypes.ExplainedPolicy{}, NearMisses: []httptypes.NearMiss{}, Revision: x.Decision.Revision}
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
	if err := setDecision(ctx, out, &x.Decision, rights); err != nil {
		return nil, err
	}
	return out, addNearMisses(ctx, out, x.NearMisses, rights)
}

func setDecision(ctx context.Context, out *httptypes.Explanation, d *limiter.Decision, rights *ReadRights) error {
	out.Decision = httptypes.ExplainedDecision{
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
func addNearMisses(ctx context.Context, out *httptypes.Explanation, misses []limiter.NearMiss, rights *ReadRights) error {
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

func explainedPolicyOf(p *limiter.ExplainedPolicy) httptypes.ExplainedPolicy {
	out := httptypes.ExplainedPolicy{
		Policy: p.Policy, Mode: p.Mode, Allowed: p.Allowed, Reason: p.Reason, Limit: p.Limit,
		Key: append([]httptypes.ExplainedKeyPart{}, p.Key...), KeyHash: p.KeyHash, Override: p.Override, Group: p.Group, Action: p.Action,
		Exception: p.Exception,
		Blocked:   p.Blocked, BlockedBy: p.BlockedBy, BlockLeftMs: answer.RoundUp(p.BlockLeft, time.Millisecond),
		Limits: make([]httptypes.ExplainedLimit, len(p.Limits)),
	}
	if p.Match != limiter.Named {
		out.Match = &p.Match
	}
	if p.Descriptor != plan.AllDescriptors {
		out.Descriptor = &p.Descriptor
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		explained := httptypes.ExplainedLimit{LimitState: answer.LimitStateOf(l), Algorithm: l.Algorithm}
		explained.Window, explained.Calendar = windowTexts(l.Window, l.Calendar)
		out.Limits[i] = explained
	}
	return out
}

func nearMissOf(miss *limiter.NearMiss) httptypes.NearMiss {
	out := httptypes.NearMiss{
		Policy: miss.Policy, Reason: miss.Reason, Field: miss.Field, Wants: miss.Wants, Got: miss.Got, Detail: miss.Detail,
		Unverified: miss.Unverified,
	}
	if miss.Reason == limiter.NearMismatch || miss.Reason == limiter.NearDisabled {
		out.Match = &miss.Match
	}
	return out
}
