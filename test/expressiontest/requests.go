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
		setValues(a)
		for i := range 124 {
			a.Headers["x-"+strconv.Itoa(i)] = long
			a.Descriptors = append(a.Descriptors, plan.Descriptor{{Key: strings.Repeat("k", 497) + strconv.Itoa(100+i), Value: long}})
		}
		requests = append(requests, a, withEntries(a, 2048))
	}
	return requests
}

// setValues sets the longest query and cookies that are read, and claims.
func setValues(a *plan.Attributes) {
	const values = plan.MaxReadValues - 1
	a.Claims = map[string]map[string]string{}
	for _, payload := range []string{"p1", "p2", "p3", "p4"} {
		a.Claims[payload] = map[string]string{}
		for i := range 128 {
			a.Claims[payload]["c"+strconv.Itoa(i)+strings.Repeat("n", 200)] = a.Path
		}
	}
	var query, cookies strings.Builder
	for i := range values {
		query.WriteString("x-" + strconv.Itoa(i) + "=" + strings.Repeat("%61+", 13) + "&")
		cookies.WriteString("c" + strconv.Itoa(i) + "=" + strings.Repeat("%61a", 13) + ";")
	}
	a.Query = strings.TrimSuffix(query.String(), "&") + ";"
	a.Headers["cookie"] = cookies.String()[:cookies.Len()-1] + ","
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
