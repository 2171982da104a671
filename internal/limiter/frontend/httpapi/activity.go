// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

func sumsOf(r *limiter.Rates) httptypes.DecisionSums {
	over := func(d time.Duration) httptypes.DecisionCounts {
		first := limiter.RateSamples - int(d/limiter.RatePeriod)
		return httptypes.DecisionCounts{
			Allowed: sum(r.Allowed[first:]), Denied: sum(r.Denied[first:]), ShadowDenied: sum(r.ShadowDenied[first:]),
			CandidateDenied: sum(r.CandidateDenied[first:]), CandidateAllowed: sum(r.CandidateAllowed[first:]),
		}
	}
	return httptypes.DecisionSums{LastMinute: over(time.Minute), Last5Minutes: over(5 * time.Minute), LastHour: over(time.Hour)}
}

func sum(numbers []int64) (total int64) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// top returns the keys with the most denials, for GET /v1/top.
func (h *Handler) top(ctx context.Context, q listQuery, rights *listRights) (any, error) {
	out, snapshot := &httptypes.TopList{Policies: []httptypes.TopPolicy{}}, h.Engine.Snapshot()
	activity, err := h.visible(ctx, q.Scope, rights, &out.Reports, func(p *limiter.PolicyActivity, reveal bool) {
		of := snapshot.Lookup(p.Policy)
		policy := httptypes.TopPolicy{Policy: p.Policy, Keys: []httptypes.TopKey{}, Unlisted: p.Unlisted, Seconds: p.Seconds}
		if of != nil {
			policy.Mode = of.Mode
		}
		if p.Rates != nil {
			policy.Decisions = new(sumsOf(p.Rates))
		}
		for i := range p.Keys {
			k := &p.Keys[i]
			policy.Keys = append(policy.Keys, httptypes.TopKey{ListedKey: listedKeyOf(of, &k.Key, reveal), Denials: httptypes.Denials{Count: k.Count, Error: k.Error}})
		}
		out.Policies = append(out.Policies, policy)
	})
	if err != nil {
		return nil, err
	}
	out.Total, out.LargestError, out.Dropped = sumsOf(&activity.Total), activity.LargestError, activity.Dropped
	return out, nil
}

// visible returns the activity in the scope, and calls use for each policy that the caller may list.
func (h *Handler) visible(
	ctx context.Context, s limiter.Scope, rights *listRights, out *httptypes.Reports, use func(p *limiter.PolicyActivity, reveal bool),
) (*limiter.Activity, error) {
	activity, err := h.Observer.Activity(ctx, s)
	if err != nil {
		return nil, err
	}
	if !activity.Since.IsZero() {
		out.Since = &activity.Since
	}
	out.Reported, out.Missing = append([]string{}, activity.Reported...), append([]string{}, activity.Missing...)
	for i := range activity.Policies {
		p := &activity.Policies[i]
		list, reveal, err := rights.toPolicy(ctx, p.Policy)
		if err != nil {
			return nil, err
		}
		if list {
			use(p, reveal)
		} else {
			out.HiddenPolicies++
		}
	}
	return activity, nil
}

func samplesOf(r *limiter.Rates) httptypes.RateSamples {
	return httptypes.RateSamples{Allowed: r.Allowed, Denied: r.Denied, ShadowDenied: r.ShadowDenied}
}

// rates returns the decisions of the last hour, for GET /v1/rates.
func (h *Handler) rates(ctx context.Context, q listQuery, rights *listRights) (any, error) {
	out := &httptypes.RateList{PeriodSeconds: int(limiter.RatePeriod / time.Second), Policies: []httptypes.PolicyRate{}}
	activity, err := h.visible(ctx, q.Scope, rights, &out.Reports, func(p *limiter.PolicyActivity, _ bool) {
		if p.Rates != nil {
			out.Policies = append(out.Policies, httptypes.PolicyRate{Policy: p.Policy, RateSamples: samplesOf(p.Rates)})
		}
	})
	if err != nil {
		return nil, err
	}
	out.EndTime, out.Total = activity.End, samplesOf(&activity.Total)
	return out, nil
}
