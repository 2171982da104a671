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

// expressionPrices are the prices of the expressions of a policy.
type expressionPrices struct {
	sum     time.Duration
	further time.Duration // of a descriptor after the first one for which the policy matches
	highest time.Duration
	most    *field.Path // of the highest
}

// expensiveExpressions warns of expressions that take more than half of the time that the expressions of one
// policy may take: another one, or a longer pattern, can make the policy invalid. It also warns if they are evaluated for each
// descriptor of a call and alone can take longer than the expressions of a Namespace may.
func expensiveExpressions(p *plan.Plan) (warnings []string) {
	prices := pricesOf(p)
	if prices.sum > expression.MaxPrice/2 {
		warnings = append(warnings, fmt.Sprintf("%s is the most expensive expression (%s) of the policy: all may take %s for the most expensive request, %d%% of the %s that a policy may take",
			prices.most, expression.FormatPrice(prices.highest), expression.FormatPrice(prices.sum), 100*prices.sum/expression.MaxPrice, expression.FormatPrice(expression.MaxPrice)))
	}
	if prices.sum+(plan.MaxDescriptors-1)*prices.further > expression.MaxPrice {
		warnings = append(warnings, fmt.Sprintf("%s is the most expensive expression (%s) of the policy, which evaluates it for each descriptor that it matches: "+
			"if a call has more than %d of them, its failureMode decides (ExpressionsOverBudget); type, except and otherEntries of descriptors need no expression",
			prices.most, expression.FormatPrice(prices.highest), 1+(expression.MaxPrice-prices.sum)/prices.further))
	}
	return warnings
}

func pricesOf(p *plan.Plan) *expressionPrices {
	prices, needsDescriptor := &expressionPrices{}, p.DependsOnDescriptors()
	for i := range p.Matches {
		addPrice[bool](prices, at("matches", i).Child("when"), p.Matches[i].When, len(p.Matches[i].Descriptors) > 0)
	}
	for i := range p.Key {
		addPrice[string](prices, at("key", i).Child("expression", "cel"), p.Key[i].Expression, needsDescriptor)
	}
	for i := range p.Overrides {
		addPrice[bool](prices, at("overrides", i).Child("when"), p.Overrides[i].When, needsDescriptor)
	}
	return prices
}

// addPrice adds the price of the expression, if there is one. perDescriptor is whether it is evaluated for each descriptor.
func addPrice[T expression.Result](prices *expressionPrices, at *field.Path, text string, perDescriptor bool) {
	if text == "" {
		return
	}
	compiled, err := expression.Compile[T](text)
	if err != nil {
		return // the plan comes from another release
	}
	price := compiled.Price()
	if prices.sum += price; price > prices.highest {
		prices.highest, prices.most = price, at
	}
	if perDescriptor {
		prices.further += price - compiled.Scans()
	}
}
