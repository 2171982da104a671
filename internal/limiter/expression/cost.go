// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/cel-go/cel"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// responseCode is the variable of the expressions of costs: the status of the response, 0 if it is unknown.
const responseCode = "response.code"

// MaxCostPrice is the largest price of the expression of a cost. CompileCost evaluates it for each code.
const MaxCostPrice = 10 * time.Microsecond

var ofCosts = sync.OnceValue(func() environment {
	return newEnvironment(variable{name: responseCode, kind: cel.IntType})
})

// Cost is the cost of a request by the code of its response. It is safe for concurrent use.
type Cost struct {
	runs []costRun // by their codes; the first begins with 0
}

// costRun is successive codes with the same cost.
type costRun struct {
	from int
	cost int64
}

// CompileCost compiles an expression over response.code that yields an int, and evaluates it for all codes, 0 to
// plan.MaxResponseCode: no request can make it fail later. It returns an error like Compile, and for the first code
// for which the expression fails or yields a number that is not in 0..plan.MaxCost.
func CompileCost(text string) (*Cost, error) {
	compiled, _, err := ofCosts().compile(text, cel.IntType, MaxCostPrice)
	if err != nil {
		return nil, err
	}
	c := &Cost{}
	for code := range plan.MaxResponseCode + 1 {
		result, err := compiled.evaluate(map[string]any{responseCode: code})
		if err != nil {
			return nil, fmt.Errorf("fails for response.code %d: %w", code, err)
		}
		cost, isInt := result.Value().(int64)
		if !isInt || cost < 0 || cost > plan.MaxCost {
			return nil, fmt.Errorf("yields %v for response.code %d, must be 0..%d", result.Value(), code, int64(plan.MaxCost))
		}
		if n := len(c.runs); n == 0 || c.runs[n-1].cost != cost {
			c.runs = append(c.runs, costRun{from: code, cost: cost})
		}
	}
	return c, nil
}

// Of returns the cost for the code, which is 0..plan.MaxResponseCode.
func (c *Cost) Of(code int) int64 {
	i, isFirst := slices.BinarySearchFunc(c.runs, code, func(r costRun, code int) int { return cmp.Compare(r.from, code) })
	if !isFirst {
		i--
	}
	return c.runs[i].cost
}
