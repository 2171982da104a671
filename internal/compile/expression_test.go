// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// Each expression of a policy is cheap enough, but not all together. The error names the most
// expensive one, and both prices.
func TestSumOfPrices(t *testing.T) {
	const when, value, most = `request.headers.exists(n, n == "x")`, `principal.lowerAscii()`, `request.path.split("/").exists(s, s == "x" || s == "y")`
	with := func(conditions int) *v1alpha1.RateLimitPolicy {
		policy := testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, "1s").
			Match(v1alpha1.Match{When: when}).Match(v1alpha1.Match{When: most}).
			Key(v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: value}})
		for i := range conditions {
			policy.Override(v1alpha1.Override{Name: fmt.Sprint("o", i), When: when, Action: v1alpha1.OverrideActionDeny})
		}
		return policy.Obj()
	}
	sum := priceOf[bool](t, when) + priceOf[bool](t, most) + priceOf[string](t, value)
	allowed := int((expression.MaxPrice - sum) / priceOf[bool](t, when))
	g := NewWithT(t)
	g.Expect(allowed).To(BeNumerically(">", 1))

	_, errs := compile.Compile(with(allowed), compile.Everything(), time.Time{})
	g.Expect(errs).To(BeEmpty())
	compiled, errs := compile.Compile(with(allowed+1), compile.Everything(), time.Time{})
	g.Expect(compiled).To(BeNil())
	g.Expect(errs).To(HaveLen(1))
	g.Expect(errs[0].Error()).To(Equal(fmt.Sprintf(
		"spec.matches[1].when: Invalid value: all expressions of the policy may take %s for the most expensive request, at most 1 ms; this one may take %s",
		expression.FormatPrice(sum+time.Duration(allowed+1)*priceOf[bool](t, when)), expression.FormatPrice(priceOf[bool](t, most)))))
}

func priceOf[T expression.Result](t *testing.T, text string) time.Duration {
	t.Helper()
	compiled, err := expression.Compile[T](text)
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Price()
}
