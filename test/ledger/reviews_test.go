// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/warning"
	webhook "github.com/weir-dev/weir/internal/webhook/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// groupDimensions are the dimensions of policies that select groups, and of the key groups.
var groupDimensions = []dimension{
	{name: "policies", first: 1},
	{name: "overrides", of: "policies", first: 2, most: plan.MaxOverrides},
	{name: "groups of an override", of: "overrides", first: 1, most: plan.MaxGroups},
	{name: "key groups", first: 2},
	{name: "keys", of: "key groups", first: 4, most: plan.MaxGroupKeys},
	{name: "length of a key", of: "keys", first: 8, most: plan.MaxGroupKey},
	{name: "key groups with the same keys", most: 64, shape: true},
}

// everyGroup is policies that select 1,024 groups each, and a key group of 1,000 keys.
var everyGroup = []int{4, 32, 16, 1, 500, 8, 1}

// likeOthers is a policy whose overrides have many keys.
var likeOthers = []int{1, 1, 1, 1, 32, 64, 4, 1, 1}

// reviewRows are reviews of one object beside all that its Namespace has. The encoded size is the one of the Namespace.
var reviewRows = map[string]row{
	"RateLimitPolicy: reviewed by itself": {
		dimensions: compiledDimensions,
		attacks:    [][]int{inheriting, likeOthers},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			policies := overridingAll(n)
			before, encoded := plansOf(tb, policies)
			for _, p := range policies {
				for i := range p.Spec.Overrides {
					p.Spec.Overrides[i].Name += "-renamed"
					p.Spec.Overrides[i].Keys[len(p.Spec.Overrides[i].Keys)-1] += "-edited"
				}
			}
			after, _ := plansOf(tb, policies)
			return instance{encoded: encoded, use: func(testing.TB) any {
				for i := range before {
					warning.OfPlan(after[i])
					warning.DroppedCounters(before[i], after[i])
				}
				return nil
			}}
		},
	},
	"RateLimitPolicy: reviewed beside matches": {
		dimensions: append(slices.Clip(matchDimensions), dimension{name: "policies for all hosts", first: 1}),
		// Requests for 512 hosts, and matches for all hosts.
		attacks: [][]int{append(slices.Clip(crossed), 1), {1, 16, 32, 1, 1, 1, 1, 1, 256}},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			o := objects{policies: append(values(crowd(n)), values(forAllHosts(n[8]))...)}
			return reviewing(tb, o, webhook.Path, "RateLimitPolicy", &o.policies[0], func(r *warning.Review) { r.CrowdedMatches(&o.policies[0], o.policies) })
		},
	},
	"RateLimitPolicy: reviewed beside key groups": {
		dimensions: groupDimensions,
		attacks:    [][]int{everyGroup},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			o := selecting(n)
			plans, _ := plansOf(tb, []*v1alpha1.RateLimitPolicy{&o.policies[0]})
			return reviewing(tb, o, webhook.Path, "RateLimitPolicy", &o.policies[0], func(r *warning.Review) { r.Groups(&o.policies[0], plans[0], o.groups) })
		},
	},
	"RateLimitKeyGroup: reviewed": {
		dimensions: groupDimensions,
		attacks:    [][]int{everyGroup},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			o := selecting(n)
			return reviewing(tb, o, webhook.KeyGroupPath, "RateLimitKeyGroup", &o.groups[0], func(r *warning.Review) { r.KeyGroup(&o.groups[0], o.groups, o.policies) })
		},
	},
	"RateLimitException: reviewed": {
		dimensions: exceptionDimensions,
		attacks:    [][]int{oneKey},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			policy, exceptions := excepting(n)
			o := objects{policies: []v1alpha1.RateLimitPolicy{*policy}, exceptions: values(exceptions)}
			return reviewing(tb, o, webhook.ExceptionPath, "RateLimitException", &o.exceptions[0], nil)
		},
	},
}

// forAllHosts returns policies whose matches are compared with each request.
func forAllHosts(n int) []*v1alpha1.RateLimitPolicy {
	return objectsOf(n, func(i int) *v1alpha1.RateLimitPolicy {
		b := testpolicy.Make(fmt.Sprintf("t/all%04d", i)).UID(fmt.Sprint("all", i)).Generation(1).Limit("a", v1alpha1.AlgorithmFixedWindow, 1, "1m")
		for range plan.MaxMatches {
			b.Match(v1alpha1.Match{Hosts: []string{"*.t"}})
		}
		return b.Obj()
	})
}

func values[T any](all []*T) []T {
	return objectsOf(len(all), func(i int) T { return *all[i] })
}

// objects are the objects of a Namespace, as a cache reads them.
type objects struct {
	client.Reader

	policies   []v1alpha1.RateLimitPolicy
	groups     []v1alpha1.RateLimitKeyGroup
	exceptions []v1alpha1.RateLimitException
}

func (o objects) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*v1alpha1.RateLimitPolicy) = o.policies[0]
	return nil
}

func (o objects) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.RateLimitPolicyList:
		list.Items = o.policies
	case *v1alpha1.RateLimitKeyGroupList:
		list.Items = o.groups
	case *v1alpha1.RateLimitExceptionList:
		list.Items = o.exceptions
	}
	return nil
}

// reviewing returns the review of the object, as an API server asks for it. compare makes the comparisons of the review whose
// steps are counted, if any.
func reviewing(tb testing.TB, o objects, path, kind string, object client.Object, compare func(*warning.Review)) instance {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	gvk := metav1.GroupVersionKind{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Kind: kind}
	raw, err := json.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u", Kind: gvk, Operation: admissionv1.Create, Name: object.GetName(), Namespace: object.GetNamespace(), Object: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	matches, exceptions := &warning.MatchIndex{}, &warning.ExceptionIndex{}
	for i := range o.policies {
		matches.Replace(nil, &o.policies[i])
	}
	for i := range o.exceptions {
		exceptions.Replace(nil, &o.exceptions[i])
	}
	encoded := encodedBytes(tb, o.policies...) + encodedBytes(tb, o.groups...) + encodedBytes(tb, o.exceptions...)
	review := instance{
		encoded: encoded,
		use: func(tb testing.TB) any {
			tb.Helper()
			v := &webhook.Validator{
				Matches: matches, Exceptions: exceptions, Namespaces: o, ReviewTime: time.Hour, Tenancy: compile.TenancyCluster,
				Sizes: &webhook.RecordSizes{Objects: o, Budget: plan.Budget{Policies: 1000, Bytes: 16 << 20, KeyBytes: 40 << 20, Exceptions: 1000, ExceptionBytes: 16 << 20}},
			}
			handler, err := webhook.NewHandler(scheme, v)
			if err != nil {
				tb.Fatal(err)
			}
			answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
			request.Header.Set("Content-Type", "application/json")
			handler.ServeHTTP(answer, request)
			expectAllowed(tb, answer)
			return v
		},
	}
	if compare != nil {
		review.steps = func(testing.TB) int {
			r := &warning.Review{}
			compare(r)
			return r.Steps()
		}
	}
	return review
}

func expectAllowed(tb testing.TB, answer *httptest.ResponseRecorder) {
	tb.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || review.Response == nil || !review.Response.Allowed {
		tb.Fatalf("%v, status %d: %s", err, answer.Code, answer.Body)
	}
}

// selecting returns objects with the numbers of groupDimensions. Every policy selects as many groups as one may.
func selecting(n []int) (o objects) {
	o.policies = objectsOf(n[0], func(i int) v1alpha1.RateLimitPolicy {
		b := testpolicy.Make(fmt.Sprintf("t/p%d", i)).UID(fmt.Sprint("p", i)).Generation(1).Key(testpolicy.HeaderPart("X-A")).
			Limit("a", v1alpha1.AlgorithmFixedWindow, 1, "1m")
		for j := range n[1] {
			b.Override(v1alpha1.Override{
				Name: fmt.Sprint("o", j), Action: v1alpha1.OverrideActionAllow,
				Groups: objectsOf(n[2], func(k int) string { return groupName(j*n[2] + k) }),
			})
		}
		return *b.Obj()
	})
	o.groups = values(keyGroupsOf(n[3:], func(i int) int { return i%n[1]*n[2] + i/n[1]%n[2] })) // in as many overrides as there are
	return o
}

// keyGroupsOf returns key groups with the numbers of groupDimensions from key groups on.
func keyGroupsOf(n []int, group func(i int) int) []*v1alpha1.RateLimitKeyGroup {
	return objectsOf(n[0], func(i int) *v1alpha1.RateLimitKeyGroup {
		return &v1alpha1.RateLimitKeyGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: fmt.Sprint("k", i), UID: types.UID(fmt.Sprint("k", i)), Generation: 1},
			Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: groupName(group(i)), Keys: formatted(n[1], "%d-%0*d", i/n[3], max(1, n[2]-6))},
		}
	})
}

// groupName returns a name that is long, so that the encoded size grows with the number of names.
func groupName(i int) string { return fmt.Sprintf("group-%020d", i) }
