// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// expensiveExpressions warns of expressions that take more than half of the time that the expressions of one
// policy may take: another one, or a longer pattern, can make the policy invalid.
func expensiveExpressions(p *plan.Plan) []string {
	var sum, highest time.Duration
	var most *field.Path
	add := func(at *field.Path, price time.Duration) {
		if sum += price; price > highest {
			highest, most = price, at
		}
	}
	for i := range p.Matches {
		add(at("matches", i).Child("when"), priceOf[bool](p.Matches[i].When))
	}
	for i := range p.Key {
		add(at("key", i).Child("expression", "cel"), priceOf[string](p.Key[i].Expression))
	}
	for i := range p.Overrides {
		add(at("overrides", i).Child("when"), priceOf[bool](p.Overrides[i].When))
	}
	if sum <= expression.MaxPrice/2 {
		return nil
	}
	return []string{fmt.Sprintf("%s is the most expensive expression (%s) of the policy: all may take %s for the most expensive request, %d%% of the %s that a policy may take",
		most, expression.FormatPrice(highest), expression.FormatPrice(sum), 100*sum/expression.MaxPrice, expression.FormatPrice(expression.MaxPrice))}
}

// priceOf returns 0 for no expression.
func priceOf[T expression.Result](text string) time.Duration {
	if text == "" {
		return 0
	}
	compiled, err := expression.Compile[T](text)
	if err != nil {
		return 0 // the plan comes from another release
	}
	return compiled.Price()
}
