// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// explainingState explains every check alike. Its explanation is copied, as the engine makes a new
// one for each check.
type explainingState struct {
	fakeState

	explanation limiter.Explanation
	checks      []limiter.Check
}

func (s *explainingState) Explain(_ context.Context, check *limiter.Check) (*limiter.Explanation, error) {
	s.checks = append(s.checks, *check)
	x := s.explanation
	return &x, s.err
}

// readers is an Authorizer that maps a token to the Namespaces that it may read; "" is all. It
// records the Namespaces of its calls.
type readers struct {
	namespaces map[string][]string
	asked      *[]string
}

func (r readers) Authorize(_ context.Context, token string, verb Verb, namespace, policy string) (Caller, error) {
	if r.asked != nil {
		*r.asked = append(*r.asked, namespace)
	}
	readable, known := r.namespaces[token]
	switch {
	case !known:
		return Caller{}, ErrUnauthenticated
	case verb != VerbInspect || policy != "" || !slices.Contains(readable, namespace):
		return Caller{}, ErrForbidden
	}
	return Caller{User: token}, nil
}

var everything = readers{namespaces: map[string][]string{"root": {""}}}

// sampleExplanation has two policies that apply and four that nearly do, of two Namespaces.
func sampleExplanation() limiter.Explanation {
	minute := limiter.LimitState{
		Policy: "shop/login", Limit: "minute", Algorithm: plan.FixedWindow, Used: 5, Threshold: 5,
		Window: time.Minute, RetryAfter: 1500 * time.Microsecond,
	}
	return limiter.Explanation{
		Decision: limiter.Decision{
			Reason: limiter.ReasonLimitExceeded, Policy: "shop/login", Limit: "minute", Revision: 7, RetryAfter: 1500 * time.Microsecond,
		},
		Policies: []limiter.ExplainedPolicy{
			{
				Policy: "shop/login", Mode: plan.ModeEnforce, Match: 1, Descriptor: 0, KeyHash: "0123", Reason: limiter.ReasonLimitExceeded,
				Limit: "minute", Override: "gold", Group: "partners", Action: plan.ActionLimit, Limits: []limiter.LimitState{minute},
				Exception: &limiter.Exception{Name: "launch", Action: plan.ActionLimit, Until: time.UnixMilli(1_800_000_000_000).UTC(), Reason: "ticket 4711"},
				Key:       []limiter.ExplainedKeyPart{{Type: plan.KeyHeader, Name: "x-account", Value: "bob"}},
				Blocked:   true, BlockedBy: "minute", BlockLeft: time.Second,
			},
			{
				Policy: "platform/all", Mode: plan.ModeShadow, Match: limiter.Named, Descriptor: plan.AllDescriptors,
				Allowed: true, Reason: limiter.ReasonExempt,
			},
		},
		NearMisses: []limiter.NearMiss{
			{Policy: "platform/off", Reason: limiter.NearDisabled, Match: 0},
			{Policy: "shop/cart", Reason: limiter.NearMismatch, Match: 0, Field: plan.FieldPaths, Wants: []string{"/cart"}, Got: []string{"/login"}},
			{Policy: "shop/later", Reason: limiter.NearNotLoaded, Detail: "version 9"},
			{Policy: "shop/burst", Reason: limiter.NearByName, Unverified: true},
		},
	}
}

func explainAs(t *testing.T, authorizer Authorizer, token string, x limiter.Explanation) (out httptypes.Explanation) {
	t.Helper()
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}, State: &explainingState{explanation: x}, Authorizer: authorizer})
	w := sendAs(h, token, http.MethodPost, pathExplain, `{"attributes":{}}`)
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	g.Expect(json.Unmarshal(w.Body.Bytes(), &out)).To(Succeed())
	return out
}

func TestExplanationAsJSON(t *testing.T) {
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}, State: &explainingState{explanation: sampleExplanation()}, Authorizer: everything})
	w := sendAs(h, "root", http.MethodPost, pathExplain, `{"attributes":{}}`)
	g.Expect(w.Header().Get(answer.HeaderContentType)).To(Equal(answer.TypeJSON))
	g.Expect(w.Body.String()).To(MatchJSON(`{
		"decision": {"allowed": false, "reason": "LimitExceeded", "policy": "shop/login", "limit": "minute", "retryAfterMs": 2},
		"policies": [
			{"policy": "shop/login", "mode": "Enforce", "match": 1, "descriptor": 0, "allowed": false, "reason": "LimitExceeded", "limit": "minute",
			 "key": [{"type": "Header", "name": "x-account", "value": "bob"}], "keyHash": "0123", "override": "gold", "group": "partners", "action": "Limit",
			 "exception": {"name": "launch", "action": "Limit", "until": "2027-01-15T08:00:00Z", "reason": "ticket 4711"},
			 "blocked": true, "blockedBy": "minute", "blockLeftMs": 1000,
			 "limits": [{"policy": "shop/login", "limit": "minute", "allowed": false, "used": 5, "threshold": 5, "remaining": 0, "retryAfterMs": 2,
			             "remainingAfterWaiting": 0, "resetAfterMs": 0, "shadow": false, "algorithm": "FixedWindow", "window": "1m"}]},
			{"policy": "platform/all", "mode": "Shadow", "allowed": true, "reason": "Exempt", "key": [], "blocked": false, "limits": []}],
		"hiddenPolicies": 0,
		"nearMisses": [
			{"policy": "platform/off", "reason": "Disabled", "match": 0},
			{"policy": "shop/cart", "reason": "Mismatch", "match": 0, "field": "paths", "wants": ["/cart"], "got": ["/login"]},
			{"policy": "shop/later", "reason": "NotLoaded", "detail": "version 9"},
			{"policy": "shop/burst", "reason": "ByNameOnly", "unverified": true}],
		"hiddenNearMisses": 0, "moreNearMisses": 0, "revision": 7}`))
}

// Policies of Namespaces that the caller may not read are counted, not named.
func TestExplanationNamesOnlyReadablePolicies(t *testing.T) {
	for token, want := range map[string]struct {
		policies, hidden, near, hiddenNear int
		denier                             string
	}{
		"root":     {2, 0, 4, 0, "shop/login"},
		"shop":     {1, 1, 3, 1, "shop/login"},
		"platform": {1, 1, 1, 3, ""},
		"other":    {0, 2, 0, 4, ""},
	} {
		t.Run(token, func(t *testing.T) {
			g := NewWithT(t)
			var asked []string
			authorizer := readers{map[string][]string{"root": {""}, "shop": {"shop"}, "platform": {"platform"}, "other": {"other"}}, &asked}
			out := explainAs(t, authorizer, token, sampleExplanation())
			g.Expect([]any{len(out.Policies), out.HiddenPolicies, len(out.NearMisses), out.HiddenNearMisses, out.Decision.Policy}).
				To(Equal([]any{want.policies, want.hidden, want.near, want.hiddenNear, want.denier}))
			g.Expect(out.Decision.Limit).To(Equal(map[bool]string{true: "minute"}[want.denier != ""]))
			g.Expect(out.Decision.Reason).To(Equal(limiter.ReasonLimitExceeded))
			g.Expect(asked).To(Equal(map[bool][]string{true: {""}, false: {"", "shop", "platform"}}[token == "root"]), "each Namespace is asked for once")
		})
	}
}

func TestExplanationListsTwentyNearMisses(t *testing.T) {
	g := NewWithT(t)
	x := sampleExplanation()
	for i := range 30 {
		x.NearMisses = append(x.NearMisses, limiter.NearMiss{Policy: fmt.Sprintf("shop/p%d", i), Reason: limiter.NearByName})
	}
	out := explainAs(t, readers{namespaces: map[string][]string{"shop": {"shop"}}}, "shop", x)
	g.Expect([]int{len(out.NearMisses), out.HiddenNearMisses, out.MoreNearMisses}).To(Equal([]int{20, 1, 13}))
}

// An explanation checks the rights to a bounded number of Namespaces.
func TestExplanationAsksForFewNamespaces(t *testing.T) {
	g := NewWithT(t)
	x := sampleExplanation()
	for i := range 100 {
		x.NearMisses = append(x.NearMisses, limiter.NearMiss{Policy: fmt.Sprintf("n%d/x", i), Reason: limiter.NearByName})
	}
	var asked []string
	out := explainAs(t, readers{map[string][]string{"shop": {"shop", "n99"}}, &asked}, "shop", x)
	g.Expect(asked).To(HaveLen(1 + maxNamespaces))
	g.Expect([]int{len(out.NearMisses), out.HiddenNearMisses, out.MoreNearMisses}).To(Equal([]int{3, 101, 0}))
}

// A policy that was never published is as far from applying as one that cannot be read.
func TestExplanationListsUnpublishedPolicies(t *testing.T) {
	g := NewWithT(t)
	snapshot := index.NewSnapshot(7, []*plan.Plan{hourly("login")}).WithSkipped([]index.Skipped{{ID: "shop/later", Problem: "version 9"}})
	h := New(Options{
		Engine: &fakeEngine{snapshot: snapshot}, Authorizer: everything,
		State: &explainingState{explanation: sampleExplanation()},
		Unready: func() *plan.Unready {
			return &plan.Unready{Count: 3, Policies: []plan.UnreadyPolicy{
				{ID: "shop/invalid", Reason: "Invalid"}, {ID: "shop/later", Reason: "ReplicasBehind"}, {ID: "shop/login", Reason: "Invalid"},
			}}
		},
	})
	near := func(check string) (policies []string) {
		var out httptypes.Explanation
		g.Expect(json.Unmarshal(sendAs(h, "root", http.MethodPost, pathExplain, check).Body.Bytes(), &out)).To(Succeed())
		for i := range out.NearMisses {
			policies = append(policies, out.NearMisses[i].Policy+" "+out.NearMisses[i].Detail)
		}
		return policies
	}
	published := []string{"platform/off ", "shop/cart ", "shop/later version 9", "shop/burst "}
	g.Expect(near(`{"attributes":{}}`)).To(Equal(slices.Insert(slices.Clone(published), 3, "shop/invalid the policy is not Ready: Invalid")))
	g.Expect(near(`{"policies":["shop/login"]}`)).To(Equal(published))
}

func TestExplainPassesTheCheckOn(t *testing.T) {
	g, state := NewWithT(t), &explainingState{}
	h := New(Options{Engine: &fakeEngine{}, State: state, Authorizer: everything})
	w := sendAs(h, "root", http.MethodPost, pathExplain, `{"policies":["shop/a"],"key":["x","y"],"cost":3,"attributes":{"host":"h","domain":"d"}}`)
	g.Expect(w.Code).To(Equal(http.StatusOK))
	g.Expect(state.checks).To(HaveLen(1))
	g.Expect(state.checks[0].Attributes.Domain).To(Equal("d"))
	g.Expect([]any{state.checks[0].Cost, len(state.checks[0].Policies), len(state.checks[0].Key)}).To(Equal([]any{int64(3), 1, 2}))
}

func TestErrorsOfExplain(t *testing.T) {
	const byName = `{"policies":["platform/x","shop/x"]}`
	for name, tc := range map[string]struct {
		token, body string
		err         error
		status      int
		code, field string
	}{
		"no token":              {"", byName, nil, 401, codeUnauthenticated, ""},
		"an unknown token":      {"unknown", byName, nil, 401, codeUnauthenticated, ""},
		"a foreign policy":      {"shop", byName, nil, 403, codeForbidden, ""},
		"an unknown foreign":    {"shop", byName, &limiter.UnknownPolicyError{Policy: "platform/x"}, 403, codeForbidden, ""},
		"an unknown policy":     {"root", byName, &limiter.UnknownPolicyError{Policy: "shop/x"}, 404, codeUnknownPolicy, "policies[1]"},
		"an invalid attribute":  {"root", `{"attributes":{"hosts":"a"}}`, nil, 400, answer.CodeInvalidRequest, "attributes.hosts"},
		"no request":            {"root", `{}`, nil, 400, answer.CodeInvalidRequest, "policies"},
		"a large body":          {"root", strings.Repeat(" ", maxBody+1), nil, 413, codeBodyTooLarge, ""},
		"another explanation":   {"root", byName, limiter.ErrExplaining, 503, codeUnavailable, ""},
		"no plans":              {"root", byName, limiter.ErrNotReady, 503, codeNotReady, ""},
		"an invalid cost later": {"root", byName, &limiter.FieldError{Field: "key[0]"}, 400, answer.CodeInvalidRequest, "key[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			g, state := NewWithT(t), &explainingState{fakeState: fakeState{err: tc.err}}
			authorizer := readers{namespaces: map[string][]string{"root": {""}, "shop": {"shop"}}}
			w := sendAs(New(Options{Engine: &fakeEngine{}, State: state, Authorizer: authorizer}), tc.token, http.MethodPost, pathExplain, tc.body)
			g.Expect(w.Code).To(Equal(tc.status), w.Body.String())
			problem := decodeProblem(g, w)
			g.Expect([]string{problem.Code, problem.Field}).To(Equal([]string{tc.code, tc.field}))
			g.Expect(w.Header().Get(answer.HeaderRetryAfter)).To(Equal(map[int]string{503: "1"}[tc.status]))
			g.Expect(state.checks == nil).To(Equal(tc.err == nil || tc.status == 403), "nothing is explained before the caller is authorized")
		})
	}
}

func TestExplainIsCanceledForACallerThatHangsUp(t *testing.T) {
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	r := httptest.NewRequest(http.MethodPost, pathExplain, strings.NewReader(`{"attributes":{}}`)).WithContext(ctx)
	r.RemoteAddr = loopback
	r.Header.Set("Authorization", "Bearer root")
	w := httptest.NewRecorder()
	New(Options{Engine: &fakeEngine{}, State: &explainingState{fakeState: fakeState{err: context.Canceled}}, Authorizer: everything}).ServeHTTP(w, r)
	NewWithT(t).Expect(w.Code).To(Equal(statusClientClosed))
}
