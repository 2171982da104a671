// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// memoryShort is the share of maxmemory above which Redis is short of memory.
	memoryShort = 0.9
	// expirySoon is the life of a certificate that should have been renewed, as in the alert.
	expirySoon = 7 * 24 * time.Hour
)

// passingReasons are why a policy is not ready for a moment during a rollout.
var passingReasons = []string{
	v1alpha1.ReasonPublishing, v1alpha1.ReasonNoReplicas, v1alpha1.ReasonReplicasBehind, v1alpha1.ReasonReplicasTooOld,
}

// runningState is the part of GET /v1/policies that the checks read.
type runningState struct {
	httptypes.PolicyList

	expected int64 // revision of every replica
}

// inspectReplica checks what one replica knows.
func inspectReplica(ctx context.Context, c *connect.Client, r *report) {
	state, err := running(ctx, c)
	if err != nil {
		r.add("decisions", outcomeFailed, err.Error(), "the replica decides nothing; see its log")
	} else {
		r.add("decisions", outcomeOK, fmt.Sprintf("weir %s, %d policies, revision %d", state.Version, max(state.Count, len(state.Policies)), state.Revision), "")
		state.inspect(r)
	}
	process := &httptypes.Process{}
	if _, err := c.Call(ctx, http.MethodGet, "/v1/process", nil, process); err != nil {
		r.skip("redis", err)
		r.skip("certificates", err)
		return
	}
	inspectRedis(process.Redis, r)
	inspectCertificates(process.Certificates, r)
}

// running returns the running state. A replica may be behind for a moment after an edit, so it asks
// again before it reports one as behind the newest revision of the first answer.
func running(ctx context.Context, c *connect.Client) (*runningState, error) {
	ask := func() (*runningState, error) {
		state := &runningState{}
		_, err := c.Call(ctx, http.MethodGet, "/v1/policies", nil, state)
		return state, err
	}
	state, err := ask()
	if err != nil {
		return nil, err
	}
	expected := state.Revision
	for i := range state.Replicas {
		expected = max(expected, state.Replicas[i].Revision)
	}
	if len(state.behind(expected)) > 0 {
		select {
		case <-time.After(checkPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if state, err = ask(); err != nil {
			return nil, err
		}
	}
	state.expected = expected
	return state, nil
}

// behind returns the replicas that have not loaded the revision.
func (s *runningState) behind(revision int64) (names []string) {
	for i := range s.Replicas {
		if replica := &s.Replicas[i]; replica.Revision < revision {
			names = append(names, fmt.Sprintf("%s (revision %d of %d)", replica.Name, replica.Revision, revision))
		}
	}
	return names
}

// inspect checks the replicas and, by the heartbeat of the leader, the policies.
func (s *runningState) inspect(r *report) {
	if len(s.Replicas) == 0 {
		r.add("replicas", outcomeNotChecked, "this process follows no registry", "")
		return
	}
	behind := s.behind(s.expected)
	var skipping []string
	for i := range s.Replicas {
		if replica := &s.Replicas[i]; replica.Skips > 0 {
			skipping = append(skipping, fmt.Sprintf("%s (%d plans)", replica.Name, replica.Skips))
		}
	}
	switch {
	case len(behind) > 0:
		r.addPassing("replicas", "behind the registry: "+strings.Join(behind, ", "), "see the runbook, A replica does not follow the registry")
	case len(skipping) > 0:
		r.add("replicas", outcomeFailed, "cannot decode plans: "+strings.Join(skipping, ", "), "upgrade these replicas, or see the runbook, A plan in the registry cannot be read")
	default:
		r.add("replicas", outcomeOK, fmt.Sprintf("%d alive, all at revision %d", len(s.Replicas), s.expected), "")
	}
	s.inspectPolicies(r)
}

func (s *runningState) inspectPolicies(r *report) {
	if s.Unready == nil {
		r.addPassing("leader", "no leader sends heartbeats, so edits of policies have no effect", "see the runbook, No process leads")
		r.add("policies", outcomeNotChecked, "only a leader knows", "")
		r.add("budgets", outcomeNotChecked, "only a leader knows", "")
		return
	}
	r.add("leader", outcomeOK, "sends heartbeats", "")
	var others, overBudget []string
	for _, p := range s.Unready.Policies {
		if p.Reason == v1alpha1.ReasonOverBudget {
			overBudget = append(overBudget, p.ID)
		} else {
			others = append(others, p.ID+" ("+p.Reason+")")
		}
	}
	const describe = "kubectl describe them; the condition that is not True has the reason"
	switch detail := fmt.Sprintf("%d not ready: %s", s.Unready.Count, firstOf(others)); {
	case len(others) == 0:
		r.add("policies", outcomeOK, "all that have room are ready", "")
	case slices.ContainsFunc(s.Unready.Policies, func(p plan.UnreadyPolicy) bool { return !slices.Contains(passingReasons, p.Reason) }):
		r.add("policies", outcomeFailed, detail, describe)
	default:
		r.addPassing("policies", detail, describe)
	}
	if len(overBudget) > 0 {
		r.add("budgets", outcomeFailed, "no room for "+firstOf(overBudget), "delete policies, or raise the chart value budgets")
	} else {
		r.add("budgets", outcomeOK, "no policy waits for room", "")
	}
}

// firstOf lists some of the names.
func firstOf(names []string) string {
	const listed = 5
	if len(names) <= listed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}

func inspectRedis(redis *httptypes.Redis, r *report) {
	if redis == nil {
		r.add("redis", outcomeNotChecked, "this process counts in its own memory", "")
		return
	}
	if len(redis.Problems) > 0 {
		r.add("redis", outcomeFailed, strings.Join(redis.Problems, "; "), "see the runbook, Redis does not answer; for NOPERM the ACL rules in the installation guide")
		return
	}
	detail := strings.Join(redis.Servers, ", ")
	if len(redis.Evictions) > 0 {
		detail += ", maxmemory-policy " + strings.Join(redis.Evictions, ", ")
	}
	if redis.MemoryUse > 0 {
		detail += fmt.Sprintf(", %.0f%% of maxmemory", 100*redis.MemoryUse)
	}
	switch {
	case strings.Join(redis.Evictions, "") != "" && strings.Join(redis.Evictions, "") != "noeviction":
		r.add("redis", outcomeFailed, detail, "set maxmemory-policy noeviction: evicted counters lift limits and blocks")
	case redis.MemoryUse > memoryShort:
		r.add("redis", outcomeFailed, detail, "raise maxmemory: without room every policy decides by its failureMode")
	case redis.OldestTested != "":
		r.add("redis", outcomeWarning, detail, "upgrade: the oldest tested version is "+redis.OldestTested)
	case len(redis.Evictions) == 0:
		r.add("redis", outcomeWarning, detail+", maxmemory-policy unknown", "make sure that it is noeviction")
	default:
		r.add("redis", outcomeOK, detail, "")
	}
}

func inspectCertificates(certificates []httptypes.Certificate, r *report) {
	if len(certificates) == 0 {
		r.add("certificates", outcomeOK, "this process has none", "")
		return
	}
	var texts []string
	o := outcomeOK
	for _, c := range certificates {
		left := time.Until(c.Expires)
		texts = append(texts, fmt.Sprintf("%s expires %s", c.Name, c.Expires.Format(time.DateOnly)))
		switch {
		case left <= 0:
			o = outcomeFailed
		case left < expirySoon && o == outcomeOK:
			o = outcomeWarning
		}
	}
	fix := ""
	if o != outcomeOK {
		fix = "renew it: see the runbook, A certificate expires"
	}
	r.add("certificates", o, strings.Join(texts, ", "), fix)
}
