// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expressiontest

import (
	"strconv"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// MostExpensiveRequests returns the largest requests, each of other texts.
func MostExpensiveRequests() (requests []*plan.Attributes) {
	for _, text := range []string{"a", "/", "é", "\xff", "ab", "A", "crawle", "spidecrawle", "1", "1h1.5s", "2020-01-01T00:00:00.1", "k", "\u2003", "x\n", "fo "} {
		long := strings.Repeat(text, 8192/len(text))
		a := &plan.Attributes{
			Method: strings.Repeat("a/", 511), Host: strings.Clone(long), Path: long, Principal: long,
			Headers: map[string]string{
				"exponent": "17976931348623157" + strings.Repeat("7", 42) + "e-320", "digits": strings.Repeat("0", 63) + "1",
				"time": "2020-01-01T00:00:00." + strings.Repeat("7", 43) + "Z", "duration": strings.Repeat("1h1.5s", 10),
			},
		}
		for i := range 124 {
			a.Headers["x-"+strconv.Itoa(i)] = long
			a.Descriptors = append(a.Descriptors, plan.Descriptor{{Key: strings.Repeat("k", 497) + strconv.Itoa(100+i), Value: long}})
		}
		requests = append(requests, a, withEntries(a, 2048))
	}
	return requests
}

// withEntries returns a request with the number of short descriptor entries, of few keys.
func withEntries(a *plan.Attributes, count int) *plan.Attributes {
	short := *a
	short.Descriptors = nil
	for i := range count {
		short.Descriptors = append(short.Descriptors, plan.Descriptor{{Key: "key-" + strconv.Itoa(i%127), Value: a.Path}})
	}
	return &short
}
