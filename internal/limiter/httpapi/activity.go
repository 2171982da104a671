// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// reports are the members that the answers of GET /v1/top and GET /v1/rates share.
type reports struct {
	// Reported are the replicas whose observations are contained, Missing the live ones that did not
	// report in time.
	Reported []string `json:"reported"`
	Missing  []string `json:"missing"`
	// Since is when the replicas began to count decisions without a gap; nil if that is an hour ago or more.
	Since *time.Time `json:"since,omitempty"`
	// HiddenPolicies is the number of active policies that the caller may not list.
	HiddenPolicies int `json:"hiddenPolicies"`
}

// topList is the answer of GET /v1/top.
type topList struct {
	Policies []topPolicy `json:"policies"`
	// Total has the decisions of the whole scope, also of hidden policies.
	Total decisionSums `json:"total"`
	// LargestError is the largest error of a key, Dropped the number of denials and blocks that are
	// missing.
	LargestError int64 `json:"largestError"`
	Dropped      int64 `json:"dropped"`
	reports
}

type topPolicy struct {
	Policy string    `json:"policy"`
	Mode   plan.Mode `json:"mode,omitempty"`
	// Decisions is absent if nothing was decided in the last hour.
	Decisions *decisionSums `json:"decisions,omitempty"`
	// Keys are the keys that were denied most often in the last Seconds. Others were denied at most
	// Unlisted times.
	Keys     []topKey `json:"keys"`
	Unlisted int64    `json:"unlisted"`
	Seconds  int64    `json:"seconds"`
}

// topKey is a key that was denied between Count - Error and Count times.
type topKey struct {
	keyInList

	Count int64 `json:"count"`
	Error int64 `json:"error"`
}

// decisionSums are numbers of decisions.
type decisionSums struct {
	LastMinute   decisionCounts `json:"lastMinute"`
	Last5Minutes decisionCounts `json:"last5Minutes"`
	LastHour     decisionCounts `json:"lastHour"`
}

type decisionCounts struct {
	Allowed      int64 `json:"allowed"`
	Denied       int64 `json:"denied"`
	ShadowDenied int64 `json:"shadowDenied"`
	// CandidateDenied and CandidateAllowed are those of limiter.Rates.
	CandidateDenied  int64 `json:"candidateDenied"`
	CandidateAllowed int64 `json:"candidateAllowed"`
}

func sumsOf(r *limiter.Rates) decisionSums {
	over := func(d time.Duration) decisionCounts {
		first := limiter.RateSamples - int(d/limiter.RatePeriod)
		return decisionCounts{
			Allowed: sum(r.Allowed[first:]), Denied: sum(r.Denied[first:]), ShadowDenied: sum(r.ShadowDenied[first:]),
			CandidateDenied: sum(r.CandidateDenied[first:]), CandidateAllowed: sum(r.CandidateAllowed[first:]),
		}
	}
	return decisionSums{LastMinute: over(time.Minute), Last5Minutes: over(5 * time.Minute), LastHour: over(time.Hour)}
}

func sum(numbers []int64) (total int64) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// top serves GET /v1/top.
func (h *Handler) top(w http.ResponseWriter, r *http.Request) {
	h.list(w, r, func(ctx context.Context, q listQuery, rights *listRights) (any, error) {
		return h.listTop(ctx, q.Scope, rights)
	})
}

// listTop returns the keys that are denied most often, of the policies that the caller may list.
func (h *Handler) listTop(ctx context.Context, s limiter.Scope, rights *listRights) (*topList, error) {
	out, snapshot := &topList{Policies: []topPolicy{}}, h.Engine.Snapshot()
	activity, err := h.visible(ctx, s, rights, &out.reports, func(p *limiter.PolicyActivity, reveal bool) {
		of := snapshot.Lookup(p.Policy)
		policy := topPolicy{Policy: p.Policy, Mode: modeOf(of), Keys: []topKey{}, Unlisted: p.Unlisted, Seconds: p.Seconds}
		if p.Rates != nil {
			policy.Decisions = new(sumsOf(p.Rates))
		}
		for i := range p.Keys {
			k := &p.Keys[i]
			policy.Keys = append(policy.Keys, topKey{keyInList: keyInListOf(of, &k.Key, reveal), Count: k.Count, Error: k.Error})
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
	ctx context.Context, s limiter.Scope, rights *listRights, out *reports, use func(p *limiter.PolicyActivity, reveal bool),
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

// rateList is the answer of GET /v1/rates.
type rateList struct {
	// EndTime is the end of the last sample; each sample covers PeriodSeconds.
	EndTime       time.Time    `json:"endTime"`
	PeriodSeconds int          `json:"periodSeconds"`
	Total         rateSamples  `json:"total"`
	Policies      []policyRate `json:"policies"`
	reports
}

type policyRate struct {
	Policy string `json:"policy"`
	rateSamples
}

// rateSamples are decisions, one number for each sample, the oldest first.
type rateSamples struct {
	Allowed      []int64 `json:"allowed"`
	Denied       []int64 `json:"denied"`
	ShadowDenied []int64 `json:"shadowDenied"`
}

func samplesOf(r *limiter.Rates) rateSamples {
	return rateSamples{Allowed: r.Allowed, Denied: r.Denied, ShadowDenied: r.ShadowDenied}
}

// rates serves GET /v1/rates.
func (h *Handler) rates(w http.ResponseWriter, r *http.Request) {
	h.list(w, r, func(ctx context.Context, q listQuery, rights *listRights) (any, error) {
		return h.listRates(ctx, q.Scope, rights)
	})
}

// listRates returns the decisions of the last hour.
func (h *Handler) listRates(ctx context.Context, s limiter.Scope, rights *listRights) (*rateList, error) {
	out := &rateList{PeriodSeconds: int(limiter.RatePeriod / time.Second), Policies: []policyRate{}}
	activity, err := h.visible(ctx, s, rights, &out.reports, func(p *limiter.PolicyActivity, _ bool) {
		if p.Rates != nil {
			out.Policies = append(out.Policies, policyRate{Policy: p.Policy, rateSamples: samplesOf(p.Rates)})
		}
	})
	if err != nil {
		return nil, err
	}
	out.EndTime, out.Total = activity.End, samplesOf(&activity.Total)
	return out, nil
}
