// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

func TestPoliciesListsLimitsAndReplicas(t *testing.T) {
	g := NewWithT(t)
	snapshot := index.NewSnapshot(42, []*plan.Plan{
		{Namespace: "shop", Name: "login", Mode: plan.ModeEnforce, Limits: []plan.Limit{
			{Name: "burst", Algorithm: plan.SlidingLog, Threshold: 5, WindowMillis: 60_000},
			{Name: "daily", Algorithm: plan.FixedWindow, Threshold: 20, WindowMillis: 86_400_000},
		}, Candidates: []plan.LimitOverride{{Name: "daily", Threshold: 10, WindowMillis: 43_200_000}}},
		{Namespace: "shop", Name: "api", Mode: plan.ModeShadow, Reservations: plan.Reservations{MaxTTLMillis: 600_000, MaxOpen: 7}, LateCharges: plan.LateCharges{From: 2}},
	})
	replicas := func(context.Context) []httptypes.Replica {
		return []httptypes.Replica{{Name: "weir-0", Revision: 41, Skips: 1}}
	}
	unready := func() *plan.Unready {
		return &plan.Unready{Count: 2, Policies: []plan.UnreadyPolicy{{ID: "shop/large", Reason: "OverBudget"}}}
	}
	w := send(NewOperator(Options{Engine: &fakeEngine{snapshot: snapshot}, Replicas: replicas, Unready: unready}, "example.com"), http.MethodGet, pathPolicies, "")
	g.Expect(w.Code).To(Equal(http.StatusOK))
	g.Expect(w.Body.String()).To(MatchJSON(`{"revision": 42, "count": 2, "policies": [
		{"name": "shop/api", "mode": "Shadow", "limits": [], "reservations": {"maxTTL": "10m", "maxOpen": 7}, "lateCharges": {"from": 2}},
		{"name": "shop/login", "mode": "Enforce", "limits": [
			{"name": "burst", "algorithm": "SlidingLog", "threshold": 5, "window": "1m"},
			{"name": "daily", "algorithm": "FixedWindow", "threshold": 20, "window": "24h",
				"candidate": {"threshold": 10, "window": "12h"}}]}
		], "replicas": [{"name": "weir-0", "revision": 41, "skips": 1}],
		"notReady": {"count": 2, "policies": [{"name": "shop/large", "reason": "OverBudget"}]}}`))
}

func TestPoliciesOfAnEmptySnapshot(t *testing.T) {
	g := NewWithT(t)
	w := send(NewOperator(Options{Engine: &fakeEngine{snapshot: index.NewSnapshot(0, nil)}}, "example.com"), http.MethodGet, pathPolicies, "")
	g.Expect(w.Body.String()).To(MatchJSON(`{"revision": 0, "count": 0, "policies": [], "replicas": []}`))
}

// tenants returns a snapshot with three policies of each Namespace.
func tenants(revision int64, namespaces ...string) *index.Snapshot {
	var plans []*plan.Plan
	for _, namespace := range namespaces {
		for i := range 3 {
			plans = append(plans, &plan.Plan{Namespace: namespace, Name: fmt.Sprint("p", i), Mode: plan.ModeEnforce})
		}
	}
	return index.NewSnapshot(revision, plans)
}

// inspectors permits the bearer of a token to inspect the Namespace of that name.
type inspectors struct{}

func (inspectors) Authorize(_ context.Context, token string, verb Verb, namespace, _ string) (Caller, error) {
	switch {
	case token == "unknown":
		return Caller{}, ErrUnauthenticated
	case verb != VerbInspect || namespace != token && token != "root":
		return Caller{}, ErrForbidden
	}
	return Caller{User: token}, nil
}

// A client without a token learns no policy, and one with a token only policies of its Namespaces.
func TestClientsSeePoliciesOfTheirNamespaces(t *testing.T) {
	g := NewWithT(t)
	unready := func() *plan.Unready {
		return &plan.Unready{Count: 1, Policies: []plan.UnreadyPolicy{{ID: "bank/large"}}}
	}
	h := New(Options{Engine: &fakeEngine{snapshot: tenants(42, "bank", "shop", "shop-b")}, Authorizer: inspectors{}, Unready: unready, Version: "v1"})
	names := func(token, query string) (names []string) {
		w := sendAs(h, token, http.MethodGet, pathPolicies+query, "")
		g.Expect(w.Code).To(Equal(http.StatusOK))
		var list httptypes.PolicyList
		g.Expect(json.Unmarshal(w.Body.Bytes(), &list)).To(Succeed())
		g.Expect(list.Count).To(Equal(9))
		g.Expect(list.Unready).To(BeNil())
		g.Expect(list.Policies).NotTo(BeNil())
		for _, p := range list.Policies {
			names = append(names, p.Name)
		}
		return names
	}
	const summary = `{"version": "v1", "revision": 42, "count": 9, "replicas": []}`
	g.Expect(send(h, http.MethodGet, pathPolicies, "").Body.String()).To(MatchJSON(summary))
	withoutAuthorizer := New(Options{Engine: h.Engine, Version: "v1"})
	g.Expect(sendAs(withoutAuthorizer, "root", http.MethodGet, pathPolicies, "").Body.String()).To(MatchJSON(summary))
	g.Expect(names("shop", "")).To(Equal([]string{"shop/p0", "shop/p1", "shop/p2"}))
	g.Expect(names("other", "")).To(BeEmpty())
	g.Expect(names("root", "")).To(HaveLen(9))
	g.Expect(names("root", "?namespace=bank")).To(Equal([]string{"bank/p0", "bank/p1", "bank/p2"}))
	g.Expect(names("shop", "?namespace=bank")).To(BeEmpty())
	g.Expect(sendAs(h, "root", http.MethodGet, pathPolicies+"?policy=shop/p0", "").Code).To(Equal(http.StatusBadRequest))
	g.Expect(sendAs(h, "unknown", http.MethodGet, pathPolicies, "").Code).To(Equal(http.StatusUnauthorized))
}

// writes notes the slices that a handler writes.
type writes struct {
	*httptest.ResponseRecorder

	parts [][]byte
}

func (w *writes) Write(p []byte) (int, error) {
	w.parts = append(w.parts, p)
	return w.ResponseRecorder.Write(p)
}

// Clients that read slowly share the text of the policies.
func TestResponsesShareTheListOfPolicies(t *testing.T) {
	g := NewWithT(t)
	h := NewOperator(Options{Engine: &fakeEngine{snapshot: tenants(42, "bank", "shop")}}, "example.com")
	read := func() []byte {
		w := &writes{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, pathPolicies, http.NoBody))
		g.Expect(w.Header().Get(headerContentLength)).To(Equal(strconv.Itoa(w.Body.Len())))
		g.Expect(w.parts).To(HaveLen(4))
		return w.parts[1]
	}
	first, second := read(), read()
	g.Expect(len(first)).To(BeNumerically(">", 200))
	g.Expect(&first[0]).To(BeIdenticalTo(&second[0]))
}

// The policies are encoded once for each snapshot, and at most once a second.
func TestPoliciesAreEncodedOnce(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(0, 0)
	p := policyEncoder{now: func() time.Time { return now }}
	before, after := tenants(1, "shop"), tenants(2, "shop", "bank")
	first := p.of(before)
	now = now.Add(time.Hour)
	g.Expect(p.of(before)).To(BeIdenticalTo(first))
	edited := p.of(after)
	g.Expect(edited.revision).To(Equal(int64(2)))
	g.Expect(edited.count).To(Equal(6))
	now = now.Add(encodingPeriod - 1)
	g.Expect(p.of(before)).To(BeIdenticalTo(edited), "too early")
	now = now.Add(1)
	g.Expect(p.of(before).revision).To(Equal(int64(1)))
}
