// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/limiter/expression"
)

// prices adds up what the expressions of a policy may take.
type prices struct {
	sum     time.Duration
	highest time.Duration
	at      *field.Path // of the highest
}

func (p *prices) add(at *field.Path, price time.Duration) {
	p.sum += price
	if price > p.highest {
		p.highest, p.at = price, at
	}
}

// condition checks an expression that must yield a bool, and returns its text.
func (c *compiler) condition(at *field.Path, text string) string {
	if text != "" {
		checkExpression[bool](c, at, text)
	}
	return text
}

// checkExpression reports an expression that does not compile or yields another type.
func checkExpression[T expression.Result](c *compiler, at *field.Path, text string) {
	compiled, err := expression.Compile[T](text)
	if err != nil {
		c.add(field.Invalid(at, text, err.Error()))
		return
	}
	c.prices.add(at, compiled.Price())
}

// cost checks the expression of the cost of commits, and returns its text. Checks do not evaluate it, so it has no
// part in the price of the policy.
func (c *compiler) cost(at *field.Path, text string) string {
	if text == "" {
		return ""
	}
	if _, err := expression.CompileCost(text); err != nil {
		c.add(field.Invalid(at, text, err.Error()))
	}
	return text
}

// checkPrices reports a policy whose expressions together take longer than one expression may.
func (c *compiler) checkPrices() {
	if c.prices.sum > expression.MaxPrice {
		c.add(field.Invalid(c.prices.at, field.OmitValueType{}, fmt.Sprintf(
			"all expressions of the policy may take %s for the most expensive request, at most %s; this one may take %s",
			expression.FormatPrice(c.prices.sum), expression.FormatPrice(expression.MaxPrice), expression.FormatPrice(c.prices.highest))))
	}
}
