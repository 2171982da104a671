// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

var exceptionNow = time.Date(2026, 11, 26, 5, 0, 0, 0, time.UTC)

func makeException(edits ...func(*v1alpha1.RateLimitExceptionSpec)) *v1alpha1.RateLimitException {
	e := &v1alpha1.RateLimitException{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "launch", UID: "u", Generation: 2},
		Spec: v1alpha1.RateLimitExceptionSpec{
			Policy: "api", Key: []string{"acme"}, Until: metav1.NewTime(exceptionNow.Add(4 * time.Hour)), Reason: "ticket 4711",
			Limits: []v1alpha1.ExceptionLimit{{Name: "burst", Threshold: new(int64(2000))}},
		},
	}
	for _, edit := range edits {
		edit(&e.Spec)
	}
	return e
}

// exceptedPolicy has a bucket of 200 units, of which gold has 500, and a log of 5 failures.
func exceptedPolicy(edits ...func(*v1alpha1.RateLimitPolicySpec)) *v1alpha1.RateLimitPolicy {
	policy := testpolicy.Make("shop/api").Key(testpolicy.PrincipalPart()).
		Limit("burst", v1alpha1.AlgorithmTokenBucket, 200, "1m").
		Limit("log", v1alpha1.AlgorithmSlidingLog, 50_000, "1m").
		Override(v1alpha1.Override{
			Name: "gold", Keys: []string{"acme"}, Limits: []v1alpha1.LimitOverride{{Name: "burst", Threshold: new(int64(500))}},
		}).Obj()
	for _, edit := range edits {
		edit(&policy.Spec)
	}
	return policy
}

func compileException(t *testing.T, e *v1alpha1.RateLimitException, policy *v1alpha1.RateLimitPolicy) (*plan.Exception, []string) {
	t.Helper()
	of, problems := compile.Compile(policy, compile.Everything(), exceptionNow)
	NewWithT(t).Expect(problems).To(BeEmpty())
	compiled, problems := compile.Exception(e, policy, of, exceptionNow)
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return compiled, texts
}

func TestException(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	compiled, problems := compileException(t, makeException(), exceptedPolicy())
	g.Expect(problems).To(BeEmpty())
	g.Expect(compiled).To(Equal(&plan.Exception{
		Namespace: "shop", Name: "launch", UID: "u", Generation: 2, Policy: "api", Key: []string{"acme"},
		UntilMillis: exceptionNow.Add(4 * time.Hour).UnixMilli(), Action: plan.ActionLimit, Reason: "ticket 4711",
		Limits: []plan.ExceptionLimit{{Name: "burst", Threshold: 2000, Burst: 2000}},
	}), "the burst follows the threshold")
}

func TestProblemsOfExceptions(t *testing.T) {
	t.Parallel()
	limits := func(all ...v1alpha1.ExceptionLimit) func(*v1alpha1.RateLimitExceptionSpec) {
		return func(s *v1alpha1.RateLimitExceptionSpec) { s.Limits = all }
	}
	until := func(ahead time.Duration) func(*v1alpha1.RateLimitExceptionSpec) {
		return func(s *v1alpha1.RateLimitExceptionSpec) { s.Until = metav1.NewTime(exceptionNow.Add(ahead)) }
	}
	allow := func(s *v1alpha1.RateLimitExceptionSpec) {
		s.Action, s.Limits = v1alpha1.ExceptionActionAllow, nil
	}
	accepting := func(factor int32, actions ...v1alpha1.AcceptedAction) func(*v1alpha1.RateLimitPolicySpec) {
		return func(s *v1alpha1.RateLimitPolicySpec) {
			s.Exceptions = v1alpha1.ExceptionBounds{MaxFactor: &factor, Actions: actions}
		}
	}
	threshold := func(name string, n int64) v1alpha1.ExceptionLimit {
		return v1alpha1.ExceptionLimit{Name: name, Threshold: &n}
	}
	burst := func(n int64) v1alpha1.ExceptionLimit { return v1alpha1.ExceptionLimit{Name: "burst", Burst: &n} }
	for name, tc := range map[string]struct {
		exception func(*v1alpha1.RateLimitExceptionSpec)
		policy    func(*v1alpha1.RateLimitPolicySpec)
		want      string // "" for none
	}{
		"ten times the override":  {exception: limits(threshold("burst", 5000))},
		"more than ten times":     {exception: limits(threshold("burst", 5001)), want: "spec.limits[0].threshold: Forbidden: 5001 is more than 5000: policy api accepts 10 times the largest threshold of limit burst, which is 500"},
		"a burst of ten times":    {exception: limits(burst(5000))},
		"more than ten bursts":    {exception: limits(burst(5001)), want: "spec.limits[0].burst: Forbidden: 5001 is more than 5000: policy api accepts 10 times the largest burst of limit burst, which is 500"},
		"lower":                   {exception: limits(threshold("burst", 1))},
		"a factor of its own":     {exception: limits(threshold("burst", 5001)), policy: accepting(11, v1alpha1.AcceptedActionLimit)},
		"nothing higher":          {exception: limits(threshold("burst", 501)), policy: accepting(1, v1alpha1.AcceptedActionLimit), want: "spec.limits[0].threshold: Forbidden: 501 is more than 500: policy api accepts 1 times the largest threshold of limit burst, which is 500"},
		"Allow":                   {exception: allow, want: "spec.action: Forbidden: policy api does not accept exceptions with action Allow: spec.exceptions.actions lists [Limit]"},
		"Allow that is accepted":  {exception: allow, policy: accepting(10, v1alpha1.AcceptedActionAllow)},
		"Limit that is not":       {exception: limits(threshold("burst", 5)), policy: accepting(10, v1alpha1.AcceptedActionAllow), want: "spec.action: Forbidden: policy api does not accept exceptions with action Limit: spec.exceptions.actions lists [Allow]"},
		"None":                    {exception: limits(threshold("burst", 5)), policy: accepting(10, v1alpha1.AcceptedActionNone), want: "spec.action: Forbidden: policy api does not accept exceptions with action Limit: spec.exceptions.actions lists [None]"},
		"None for Allow":          {exception: allow, policy: accepting(10, v1alpha1.AcceptedActionNone), want: "spec.action: Forbidden: policy api does not accept exceptions with action Allow: spec.exceptions.actions lists [None]"},
		"an empty list":           {exception: limits(threshold("burst", 5)), policy: accepting(10, []v1alpha1.AcceptedAction{}...), want: "spec.action: Forbidden: policy api does not accept exceptions with action Limit: spec.exceptions.actions lists []"},
		"an unknown limit":        {exception: limits(threshold("hourly", 5)), want: `spec: Invalid value: limits[0].name "hourly" is no limit of the policy`},
		"above what a log counts": {exception: limits(threshold("log", 100_001)), want: "spec: Invalid value: limits[0].threshold 100001 is out of bounds"},
		"90 days ahead":           {exception: until(compile.MaxExceptionAhead)},
		"91 days ahead":           {exception: until(91 * 24 * time.Hour), want: `spec.until: Invalid value: "2027-02-25T05:00:00Z": must be at most 90 days ahead`},
		"in the past":             {exception: until(-time.Hour)},
		"a long part of the key":  {exception: func(s *v1alpha1.RateLimitExceptionSpec) { s.Key = []string{strings.Repeat("ä", 128)} }, want: "spec.key[0]: Too long: may not be more than 255 bytes"},
		"a long reason":           {exception: func(s *v1alpha1.RateLimitExceptionSpec) { s.Reason = strings.Repeat("ä", 513) }, want: "spec.reason: Too long: may not be more than 1024 bytes"},
		"outer spaces": {
			policy: func(s *v1alpha1.RateLimitPolicySpec) {
				s.Key, s.Overrides = []v1alpha1.KeyPart{testpolicy.HeaderPart("X-Account")}, nil
				s.Exceptions.Actions = []v1alpha1.AcceptedAction{v1alpha1.AcceptedActionLimit}
			},
			exception: func(s *v1alpha1.RateLimitExceptionSpec) { s.Key = []string{"acme "} },
			want:      "spec.key[0]: Invalid value: never applies: spaces at both ends are removed from the values of requests",
		},
		"a control character": {exception: func(s *v1alpha1.RateLimitExceptionSpec) { s.Key = []string{"a\nb"} }, want: "spec.key[0]: Invalid value: must not contain control characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := exceptedPolicy()
			if tc.policy != nil {
				tc.policy(&policy.Spec)
				if policy.Spec.Exceptions.Actions == nil {
					policy.Spec.Exceptions.Actions = []v1alpha1.AcceptedAction{}
				}
			}
			compiled, problems := compileException(t, makeException(tc.exception), policy)
			if tc.want == "" {
				NewWithT(t).Expect(problems).To(BeEmpty())
				return
			}
			NewWithT(t).Expect(compiled).To(BeNil())
			NewWithT(t).Expect(problems).To(Equal([]string{tc.want}))
		})
	}
}

// An address is the network that the policy counts as one client; a key of another form stays as callers give it.
func TestKeysOfExceptions(t *testing.T) {
	t.Parallel()
	address := testpolicy.Make("shop/api").Limit("burst", v1alpha1.AlgorithmFixedWindow, 500, "1m").Key(v1alpha1.KeyPart{
		Type: v1alpha1.KeyPartRemoteAddress, RemoteAddress: &v1alpha1.RemoteAddressKey{IPv4PrefixLength: new(int32(24))},
	}).Obj()
	for _, tc := range []struct{ given, want []string }{
		{[]string{"192.0.2.7"}, []string{"192.0.2.0/24"}},
		{[]string{"192.0.2.0/24"}, []string{"192.0.2.0/24"}},
		{[]string{"acme"}, []string{"acme"}},
		{[]string{"a", "b"}, []string{"a", "b"}},
		{nil, nil},
	} {
		compiled, problems := compileException(t, makeException(func(s *v1alpha1.RateLimitExceptionSpec) { s.Key = tc.given }), address)
		NewWithT(t).Expect(problems).To(BeEmpty())
		NewWithT(t).Expect(compiled.Key).To(Equal(tc.want))
	}
}
