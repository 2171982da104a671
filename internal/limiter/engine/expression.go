// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// lazyExpression is a CEL expression that is compiled on first use: compiling takes
// about 0.1 ms, and a snapshot may hold thousands of expressions.
type lazyExpression[T expression.Result] struct {
	field   string // path within the policy, as in "spec.matches[0].when"
	compile func() (*expression.Expression[T], error)
}

func newLazyExpression[T expression.Result](field, text string) *lazyExpression[T] {
	return &lazyExpression[T]{field: field, compile: sync.OnceValues(func() (*expression.Expression[T], error) {
		return expression.Compile[T](text)
	})}
}

// price is the price of one expression, or of several together.
type price struct {
	all   time.Duration // of one evaluation
	scans time.Duration // included in all: the search of descriptors, see expression.Expression.Scans
}

func (p price) plus(other price) price { return price{p.all + other.all, p.scans + other.scans} }

// price returns the price of the expression, 0 if it does not compile.
func (l *lazyExpression[T]) price() price {
	compiled, err := l.compile()
	if err != nil {
		return price{}
	}
	return price{compiled.Price(), compiled.Scans()}
}

// evaluate returns the result for a request. An expression that does not compile, which
// only a plan of another release can hold, fails for every request.
func (l *lazyExpression[T]) evaluate(a *plan.Attributes, descriptors []plan.Descriptor) (T, error) {
	compiled, err := l.compile()
	if err != nil {
		var zero T
		return zero, err
	}
	return compiled.Evaluate(a, descriptors)
}

// fieldOfCost is the path of the expression of costs.
const fieldOfCost = "spec.reservations.cost.cel"
