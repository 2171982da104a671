// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Traffic returns which policies checks have applied to, as all replicas report it.
type Traffic interface {
	// Read returns the sightings that were reported at or after the time; the zero time returns all.
	Read(ctx context.Context, since time.Time) ([]plan.Sighting, error)
}

// errNoTraffic is returned if nothing reports traffic.
var errNoTraffic = &failure{http.StatusNotFound, answer.Problem{
	Code: codeNotObserved, Detail: "this Weir does not report which policies have traffic: only weir manager does.",
}}

// targets returns the policies in the scope that select requests, and that the caller may list, for GET /v1/targets.
// Only one call at a time reads the sightings, which can be many.
func (h *Handler) targets(ctx context.Context, q listQuery, rights *listRights) (any, error) {
	if !h.sighting.TryLock() {
		return nil, busy("Another request for the targets is running.")
	}
	defer h.sighting.Unlock()
	sightings, err := h.Traffic.Read(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	of := map[string][]plan.Sighting{} // by policy
	for i := range sightings {
		of[sightings[i].Policy] = append(of[sightings[i].Policy], sightings[i])
	}
	out := &httptypes.TargetList{Policies: []httptypes.TargetedPolicy{}}
	for _, p := range h.Engine.Snapshot().Plans() {
		namespace, _ := plan.SplitID(p.ID())
		if len(p.Matches) == 0 || q.Policy != "" && q.Policy != p.ID() || q.Namespace != "" && q.Namespace != namespace {
			continue
		}
		listed, _, err := rights.toPolicy(ctx, p.ID())
		if err != nil {
			return nil, err
		}
		if !listed {
			out.HiddenPolicies++
			continue
		}
		out.Policies = append(out.Policies, targetedPolicyOf(p, of[p.ID()]))
	}
	return out, nil
}

// targetedPolicyOf returns the policy with its sightings. A sighting of an earlier generation with other selectors does not count.
func targetedPolicyOf(p *plan.Plan, sightings []plan.Sighting) httptypes.TargetedPolicy {
	out := httptypes.TargetedPolicy{Policy: p.ID(), Mode: p.Mode, Targets: []httptypes.PolicyTarget{}}
	for _, target := range p.Targets() {
		out.Targets = append(out.Targets, httptypes.PolicyTarget{Target: string(target)})
	}
	selectors := p.Selectors()
	for i := range sightings {
		s := &sightings[i]
		if s.Selectors != selectors {
			continue
		}
		out.LastCheck = later(out.LastCheck, s.At)
		for j := range out.Targets {
			if t := &out.Targets[j]; t.Target == string(s.Target) {
				t.LastCheck = later(t.LastCheck, s.At)
			}
		}
	}
	return out
}

// later returns the later of two times, of which the first may be nil.
func later(known *time.Time, at time.Time) *time.Time {
	if known != nil && !at.After(*known) {
		return known
	}
	return new(at.UTC())
}
