// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

var expressionRows = map[string]row{
	"Expression: compiled": {
		dimensions: []dimension{
			{name: "expressions", first: 2},
			{name: "terms", of: "expressions", first: 1, most: 4},
			{name: "length of a literal", of: "terms", first: 4, most: 32},
			{name: "brackets", of: "terms", first: 1, most: 8},
			{name: "form", most: len(terms), shape: true},
		},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			texts := objectsOf(n[0], func(i int) string { return expressionOf(i, n[1], n[2], n[3], terms[n[4]-1]) })
			return instance{encoded: lengthOf(texts), use: func(tb testing.TB) any {
				tb.Helper()
				return compiledExpressions(tb, texts)
			}}
		},
	},
	"Expression: evaluated": {
		dimensions: []dimension{
			{name: "length of a value", first: 8},
			{name: "headers", of: "length of a value", first: 4},
			{name: "query parameters", first: 2},
			{name: "descriptors", of: "length of a value", first: 1, most: 64},
			{name: "entries", of: "descriptors", first: 2},
			{name: "form", most: len(evaluatedTerms), shape: true},
		},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			compiled := compiledExpressions(tb, []string{expressionOf(0, 2, 8, 4, evaluatedTerms[n[5]-1])})[0]
			a := attributesOf(n[1], n[0], n[2], n[3], n[4])
			return instance{
				encoded: encodedBytes(tb, a),
				use: func(testing.TB) any {
					_, _ = compiled.Evaluate(a, a.Descriptors) // a request may make it fail
					return nil
				},
				steps: func(testing.TB) int { return int(compiled.Price()) },
			}
		},
	},
}

// terms are the parts of expressions, with a literal.
var terms = []string{
	`request.path == "%s"`,
	`request.path.matches("^/%s[a-z]*$")`,
	`request.headers["x-%s"].lowerAscii().contains("a")`,
	`request.query["%s"].contains("a")`,
	`["%s", "b"].exists(v, request.host.endsWith(v))`,
}

// evaluatedTerms are terms that are cheap enough for two in an expression.
var evaluatedTerms = append(terms, `request.query["%s"].split(",").exists(v, v.startsWith("a"))`)

// expressionOf returns an expression with as many terms, each in brackets.
func expressionOf(i, count, length, brackets int, term string) string {
	parts := make([]string, count)
	for j := range parts {
		literal := fmt.Sprintf("%0*d", length, i*count+j)
		parts[j] = strings.Repeat("(", brackets) + fmt.Sprintf(term, literal) + strings.Repeat(")", brackets)
	}
	return strings.Join(parts, " || ")
}

func lengthOf[T string | []byte](texts []T) (n int) {
	for _, text := range texts {
		n += len(text)
	}
	return n
}

func compiledExpressions(tb testing.TB, texts []string) (all []*expression.Expression[bool]) {
	tb.Helper()
	for _, text := range texts {
		compiled, err := expression.Compile[bool](text)
		if err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
		all = append(all, compiled)
	}
	return all
}

// attributesOf returns a request with as many values.
func attributesOf(headers, length, query, descriptors, entries int) *plan.Attributes {
	value := strings.Repeat("a,", (length+1)/2)
	a := &plan.Attributes{Method: "GET", Host: "h.t", Headers: map[string]string{}}
	for _, name := range formatted(headers, "x-%08d") {
		a.Headers[name] = value
	}
	a.Path = "/" + value + "?" + strings.Join(formatted(query, "%[1]s=%[2]s%d", "q", "a,b"), "&")
	for i := range descriptors {
		var d plan.Descriptor
		for _, key := range formatted(entries, "e%d") {
			d = append(d, plan.Entry{Key: key, Value: fmt.Sprint(value, i)})
		}
		a.Descriptors = append(a.Descriptors, d)
	}
	return a
}
