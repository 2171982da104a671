// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/warning"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// exceptionDimensions are the dimensions of exceptions to one policy.
var exceptionDimensions = []dimension{
	{name: "exceptions", first: 4},
	{name: "parts of a key", of: "exceptions", first: 1, most: plan.MaxKeyParts},
	{name: "length of a part", of: "parts of a key", first: 16, most: plan.MaxText},
	{name: "limits", of: "exceptions", first: 1, most: plan.MaxLimits},
	{name: "length of the reason", of: "exceptions", first: 16, most: plan.MaxReason},
	{name: "exceptions for one key", most: 1024, shape: true},
}

// oneKey is exceptions for one key.
var oneKey = []int{64, 1, 16, 1, 16, 1024}

// groupRows are key groups and exceptions.
var groupRows = map[string]row{
	"RateLimitKeyGroup: compiled": {
		dimensions: groupDimensions[3:],
		// A key group of 1,000 keys of 255 bytes.
		attacks: [][]int{{1, 500, 255, 1}},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			groups := keyGroupsOf(n, func(i int) int { return i })
			return instance{encoded: encodedBytes(tb, groups...), use: func(tb testing.TB) any {
				tb.Helper()
				var compiled []*plan.KeyGroup
				for _, group := range groups {
					k, problems := compile.KeyGroup(group)
					if len(problems) > 0 {
						tb.Fatal(problems)
					}
					compiled = append(compiled, k)
				}
				return deciding(tb, admitting{}, published(tb, compiled)...)
			}}
		},
	},
	"RateLimitException: compiled": {
		dimensions: exceptionDimensions,
		attacks:    [][]int{{4, 8, 128, 1, 512, 1}, oneKey},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			policy, exceptions := excepting(n)
			of, _ := plansOf(tb, []*v1alpha1.RateLimitPolicy{policy})
			beside := published(tb, of)
			return instance{encoded: encodedBytes(tb, exceptions...), use: func(tb testing.TB) any {
				tb.Helper()
				var compiled []*plan.Exception
				for _, e := range exceptions {
					c, problems := compile.Exception(e, policy, of[0], now)
					if len(problems) > 0 {
						tb.Fatal(problems)
					}
					compiled = append(compiled, c)
				}
				return deciding(tb, admitting{}, append(published(tb, compiled), beside...)...)
			}}
		},
	},
	"RateLimitException: edited beside others": {
		dimensions: []dimension{
			{name: "length of a key", first: 16, most: plan.MaxText},
			{name: "exceptions for its key", of: "length of a key", first: 4},
			{name: "exceptions for other keys", of: "length of a key", first: 4},
		},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			policy, same := excepting([]int{n[1], 1, n[0], 1, 16, n[1]})
			_, others := excepting([]int{n[2], 1, n[0], 1, 16, 1})
			of, _ := plansOf(tb, []*v1alpha1.RateLimitPolicy{policy})
			index := &warning.ExceptionIndex{}
			for i, e := range append(same, others[1:]...) { // the first of the others has the same key
				e.Name = fmt.Sprint("e", i)
				index.Replace(nil, e)
			}
			queued := 0
			return instance{
				encoded: encodedBytes(tb, same...) + encodedBytes(tb, others...),
				use: func(tb testing.TB) any {
					tb.Helper()
					was, is := same[0], same[0].DeepCopy()
					is.Spec.Until = metav1.NewTime(is.Spec.Until.Add(24 * time.Hour)) // ends last now
					affected := index.Replace(was, is)
					queued = len(affected)
					compiled, problems := compile.Exception(is, policy, of[0], now)
					if len(problems) > 0 {
						tb.Fatal(problems)
					}
					index.Warnings(compiled, policy, of[0], now)
					index.Replace(is, was)
					return affected
				},
				steps: func(testing.TB) int { return queued },
			}
		},
	},
}

// excepting returns exceptions with the numbers of exceptionDimensions, and their policy. Each ends before the one after it.
func excepting(n []int) (*v1alpha1.RateLimitPolicy, []*v1alpha1.RateLimitException) {
	b, threshold := testpolicy.Make("t/p").UID("p").Generation(1), int64(6)
	for i := range n[1] {
		b.Key(testpolicy.HeaderPart(fmt.Sprint("X-", i)))
	}
	var limits []v1alpha1.ExceptionLimit
	for _, name := range formatted(n[3], "l%d") {
		b.Limit(name, v1alpha1.AlgorithmFixedWindow, 5, "1m")
		limits = append(limits, v1alpha1.ExceptionLimit{Name: name, Threshold: &threshold})
	}
	return b.Obj(), objectsOf(n[0], func(i int) *v1alpha1.RateLimitException {
		return &v1alpha1.RateLimitException{
			ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: fmt.Sprint("e", i), UID: "e", Generation: 1},
			Spec: v1alpha1.RateLimitExceptionSpec{
				Policy: "p", Key: formatted(n[1], "%0*d-%d", max(1, n[2]-2), i/n[5]), Limits: limits,
				Until: metav1.NewTime(now.Add(time.Hour + time.Duration(i)*time.Second)), Reason: strings.Repeat("r", n[4]),
			},
		}
	})
}
