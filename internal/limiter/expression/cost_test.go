// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestCostsByCode(t *testing.T) {
	for text, want := range map[string]map[int]int64{
		`response.code in [401, 403] ? 1 : 0`:                {0: 0, 200: 0, 400: 0, 401: 1, 402: 0, 403: 1, 404: 0, 999: 0},
		`response.code >= 500 || response.code == 0 ? 5 : 1`: {0: 5, 1: 1, 499: 1, 500: 5, 999: 5},
		`response.code`: {0: 0, 401: 401, 999: 999},
		`1000000000000`: {0: plan.MaxCost, 999: plan.MaxCost},
		`string(response.code).startsWith("4") ? 1 : 0`:               {0: 0, 4: 1, 399: 0, 400: 1, 499: 1, 500: 0},
		`[401, 403, 429].exists(c, c == response.code) ? 2 : 0`:       {401: 2, 429: 2, 200: 0},
		`response.code == 401 ? 3 : response.code / 100 == 5 ? 1 : 0`: {401: 3, 402: 0, 500: 1, 599: 1, 600: 0},
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			cost, err := expression.CompileCost(text)
			g.Expect(err).NotTo(HaveOccurred())
			for code, units := range want {
				g.Expect(cost.Of(code)).To(Equal(units), "code %d", code)
			}
		})
	}
}

func TestInvalidCostsAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		``:                       "",
		`response.code == 401`:   "must yield int, not bool",
		`double(response.code)`:  "must yield int, not double",
		`uint(response.code)`:    "must yield int, not uint",
		`dyn(response.code)`:     "must yield int, not dyn",
		`response.code - 1`:      "yields -1 for response.code 0, must be 0..1000000000000",
		`1000000000001`:          "yields 1000000000001 for response.code 0, must be 0..1000000000000",
		`100 / response.code`:    "fails for response.code 0: division by zero",
		`[1, 2][response.code]`:  "fails for response.code 2: index out of bounds: 2",
		`response.status`:        "1:1: undeclared reference to 'response.status'; the only variable is response.code",
		`request.path.size()`:    "1:1: undeclared reference to 'request.path'; the only variable is response.code",
		`int(principal)`:         "1:5: undeclared reference to 'principal'; the only variable is response.code",
		`response.code.contains`: "",
		`[0,1,2,3,4,5,6,7,8,9].map(a, [0,1,2,3,4,5,6,7,8,9].map(b, a * b)).size()`: "may take 89 µs for the most expensive request, at most 10 µs",
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			_, err := expression.CompileCost(text)
			g.Expect(err).To(MatchError(ContainSubstring(want)))
		})
	}
}

// Expressions over requests do not know the response.
func TestRequestsHaveNoResponse(t *testing.T) {
	_, err := expression.Compile[bool](`response.code == 401`)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("undeclared reference to 'response'")))
}
