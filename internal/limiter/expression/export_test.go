// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// DeclaredFunctions returns the names of the functions and operators of the environment.
func DeclaredFunctions() []string { return slices.Collect(maps.Keys(ofRequests().Functions())) }

// PricedFunctions returns the names of the functions and operators that expressions may use.
func PricedFunctions() []string {
	return append(slices.Collect(maps.Keys(functions)), operators.Conditional)
}

// FunctionsOf returns the names of the functions and operators in the text.
func FunctionsOf(text string) (names []string) {
	checked, issues := ofRequests().Compile(text)
	if issues.Err() != nil {
		panic(issues.Err())
	}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind {
			names = append(names, e.AsCall().FunctionName())
		}
	}))
	return names
}

// MatchBoth returns what the automaton of the pattern and package regexp report. ok is false for
// a pattern without automaton.
func MatchBoth(pattern, text string) (got, want, ok bool) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return false, false, false
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return false, false, false
	}
	a := newAutomaton(program)
	if a == nil {
		return false, false, false
	}
	return a.match(text), regexp.MustCompile(pattern).MatchString(text), true
}

// PriceOf returns the price of the condition, which may be above MaxPrice, in nanoseconds.
func PriceOf(text string) float64 {
	checked, issues := ofRequests().Compile(text)
	if issues.Err() != nil {
		panic(issues.Err())
	}
	priced, err := priceOf(checked.NativeRep(), false)
	if err != nil {
		panic(err)
	}
	return priced.nanoseconds
}

// BoundOfText returns the largest number of bytes of the text that the expression yields.
func BoundOfText(text string) float64 {
	checked, issues := ofRequests().Compile(text)
	if issues.Err() != nil {
		panic(issues.Err())
	}
	p := &pricer{checked: checked.NativeRep(), times: 1, patterns: map[string]*pattern{}}
	return p.value(checked.NativeRep().Expr()).text
}
