// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// lazy is an expression of a plan that is compiled when it is first needed: it
// takes a tenth of a millisecond, and there may be thousands in a snapshot.
type lazyExpression[T expression.Result] struct {
	field    string // where it is in the policy
	compiled func() (*expression.Expression[T], error)
}

func newLazyExpression[T expression.Result](field, text string) *lazyExpression[T] {
	return &lazyExpression[T]{field: field, compiled: sync.OnceValues(func() (*expression.Expression[T], error) {
		return expression.Compile[T](text)
	})}
}

// evaluate returns what the expression yields. One that does not compile, from a
// plan of another release, fails on every request.
func (l *lazyExpression[T]) evaluate(a *plan.Attributes, descriptors []plan.Descriptor) (T, error) {
	compiled, err := l.compiled()
	if err != nil {
		var none T
		return none, err
	}
	return compiled.Evaluate(a, descriptors)
}
