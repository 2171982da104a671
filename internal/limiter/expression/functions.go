// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// function prices a call without the price of its arguments, and returns the bound of the
// result. The target of a method is the first argument.
type function func(p *pricer, call ast.CallExpr, args []*bound) *bound

// functions are all functions that expressions may use. Others, such as functions of a later
// version of the library, are rejected.
var functions = map[string]function{
	operators.LogicalAnd:       fixed(costOfOperator),
	operators.LogicalOr:        fixed(costOfOperator),
	operators.LogicalNot:       fixed(costOfOperator),
	operators.NotStrictlyFalse: fixed(costOfOperator),
	operators.Negate:           fixed(costOfArithmetic),
	operators.Subtract:         fixed(costOfArithmetic),
	operators.Multiply:         fixed(costOfArithmetic),
	operators.Divide:           fixed(costOfArithmetic),
	operators.Modulo:           fixed(costOfArithmetic),
	operators.Add:              add,
	operators.Equals:           equals,
	operators.NotEquals:        equals,
	operators.Less:             compares,
	operators.LessEquals:       compares,
	operators.Greater:          compares,
	operators.GreaterEquals:    compares,
	operators.In:               in,
	operators.Index:            index,

	overloads.Size:                 size,
	overloads.TypeConvertType:      fixed(costOfOperator),
	overloads.TypeConvertDyn:       same(costOfOperator, 0),
	overloads.TypeConvertBool:      fixed(costOfFailure + costOfConversion),
	overloads.TypeConvertInt:       fixed(costOfFailure + costOfConversion),
	overloads.TypeConvertUint:      fixed(costOfFailure + costOfConversion),
	overloads.TypeConvertDouble:    fixed(costOfFailure + costOfDouble),
	overloads.TypeConvertDuration:  fixed(costOfFailure + costOfTime),
	overloads.TypeConvertTimestamp: fixed(costOfFailure + costOfTime),
	overloads.TypeConvertBytes:     same(costOfCall, costOfCopy),
	overloads.TypeConvertString:    convertToString,

	overloads.Contains:   contains,
	overloads.StartsWith: compares,
	overloads.EndsWith:   compares,
	overloads.Matches:    matches,

	overloads.TimeGetFullYear:     timePart,
	overloads.TimeGetMonth:        timePart,
	overloads.TimeGetDayOfYear:    timePart,
	overloads.TimeGetDayOfMonth:   timePart,
	overloads.TimeGetDate:         timePart,
	overloads.TimeGetDayOfWeek:    timePart,
	overloads.TimeGetHours:        timePart,
	overloads.TimeGetMinutes:      timePart,
	overloads.TimeGetSeconds:      timePart,
	overloads.TimeGetMilliseconds: timePart,

	"charAt":      charAt,
	"indexOf":     indexOf,
	"lastIndexOf": indexOf,
	"lowerAscii":  same(costOfCall, costOfASCII),
	"upperAscii":  same(costOfCall, costOfASCII),
	"replace":     replace,
	"reverse":     rewrite,
	"split":       split,
	"substring":   rewrite,
	"trim":        same(costOfCall, costOfTrimming),
}

// call prices a call with its arguments.
func (p *pricer) call(e ast.Expr) *bound {
	call := e.AsCall()
	if call.FunctionName() == operators.Conditional {
		return p.conditional(call.Args())
	}
	priced, available := functions[call.FunctionName()]
	if !available {
		p.fail("function %s is not available", call.FunctionName())
		return scalar
	}
	parts := argumentsOf(call)
	args := make([]*bound, 0, len(parts))
	for i, part := range parts {
		if call.FunctionName() == operators.Index && i == 0 || call.FunctionName() == operators.In && i == 1 {
			args = append(args, p.container(part))
		} else {
			args = append(args, p.value(part))
		}
	}
	return priced(p, call, args)
}

// argumentsOf returns the target of a method and the arguments.
func argumentsOf(call ast.CallExpr) []ast.Expr {
	if call.IsMemberFunction() {
		return append([]ast.Expr{call.Target()}, call.Args()...)
	}
	return call.Args()
}

// literalOf returns the text of the first argument after the target, if it is a literal.
func literalOf(call ast.CallExpr) (text string, isLiteral bool) {
	if part := argumentsOf(call)[1]; part.Kind() == ast.LiteralKind {
		value, isText := part.AsLiteral().(types.String)
		return string(value), isText
	}
	return "", false
}

// fixed is a function with a scalar result whose time is independent of its arguments.
func fixed(nanoseconds float64) function {
	return func(p *pricer, _ ast.CallExpr, _ []*bound) *bound {
		p.spend(nanoseconds)
		return scalar
	}
}

// same is a function whose result is not larger than its argument.
func same(nanoseconds, perByte float64) function {
	return func(p *pricer, _ ast.CallExpr, args []*bound) *bound {
		p.spend(nanoseconds + perByte*args[0].text)
		return args[0]
	}
}

// convertToString validates bytes, and keeps a text as it is.
func convertToString(p *pricer, call ast.CallExpr, args []*bound) *bound {
	if p.checked.GetType(call.Args()[0].ID()).Kind() == types.StringKind {
		p.spend(costOfCall)
		return args[0]
	}
	p.spend(costOfTime + (costOfCopy+costOfRune)*args[0].text)
	return &bound{text: max(args[0].text, maxScalarText)}
}

// conditional prices the condition and the dearer branch.
func (p *pricer) conditional(parts []ast.Expr) *bound {
	p.value(parts[0])
	p.spend(costOfOperator)
	before := p.spent
	first := p.value(parts[1])
	after := p.spent
	p.spent = before
	second := p.value(parts[2])
	p.spent = max(p.spent, after)
	return union(first, second)
}

func add(p *pricer, call ast.CallExpr, args []*bound) *bound {
	if left := call.Args()[0]; left.Kind() == ast.IdentKind && p.isAccumulator(left.AsIdent()) {
		p.spend(costOfArithmetic + costOfElement*args[1].length)
		return args[1] // comprehension counts the iterations
	}
	p.spend(costOfArithmetic + costOfCopy*(args[0].text+args[1].text))
	return concatenated(args[0], args[1])
}

// isAccumulator reports whether the name is the value that the innermost loop builds.
func (p *pricer) isAccumulator(name string) bool {
	return len(p.loops) > 0 && p.loops[len(p.loops)-1].accumulator == name
}

func equals(p *pricer, _ ast.CallExpr, args []*bound) *bound {
	p.spend(costOfOperator + equalityOf(args[0], args[1]))
	return scalar
}

// equalityOf returns the price of comparing two values.
func equalityOf(a, b *bound) float64 {
	price := costOfComparison + costOfEquality*min(a.text, b.text)
	if length := min(a.length, b.length); length > 0 {
		price += length * (2*costOfElement + costOfJoint*(a.joints+b.joints) + equalityOf(a.of(), b.of()))
		if a.isMap() && b.isMap() {
			price += length * (2*costOfLookup + 2*costOfHashing*max(a.keys().text, b.keys().text))
		}
	}
	return price
}

// compares is a function that reads two texts until they differ.
func compares(p *pricer, _ ast.CallExpr, args []*bound) *bound {
	p.spend(costOfCall + costOfEquality*min(args[0].text, args[1].text))
	return scalar
}

func in(p *pricer, call ast.CallExpr, args []*bound) *bound {
	item, of := args[0], args[1]
	p.spend(costOfOperator)
	if of.isMap() || isSet(call.Args()[1]) {
		p.lookUp(of, item)
	}
	if of.isList && !isSet(call.Args()[1]) {
		p.spend(of.length * (costOfElement + costOfJoint*of.joints + equalityOf(item, of.of())))
	}
	return scalar
}

// isSet reports whether the library looks up values in the list by a hash.
func isSet(list ast.Expr) bool {
	return list.Kind() == ast.ListKind && len(list.AsList().OptionalIndices()) == 0 &&
		!slices.ContainsFunc(list.AsList().Elements(), func(e ast.Expr) bool {
			if e.Kind() != ast.LiteralKind {
				return true
			}
			return !types.IsPrimitiveType(e.AsLiteral()) || e.AsLiteral().Type() == types.BytesType
		})
}

func index(p *pricer, _ ast.CallExpr, args []*bound) *bound { return p.read(args[0], args[1]) }

func size(p *pricer, _ ast.CallExpr, args []*bound) *bound {
	p.spend(costOfCall + costOfRune*args[0].text)
	return scalar
}

func contains(p *pricer, _ ast.CallExpr, args []*bound) *bound {
	p.spend(costOfCall + costOfSearch*(args[0].text+args[1].text))
	return scalar
}

// timePart rejects names of time zones: the library reads a file for each.
func timePart(p *pricer, call ast.CallExpr, args []*bound) *bound {
	p.spend(costOfFailure + costOfTime)
	if len(args) > 1 {
		if zone, isLiteral := literalOf(call); !isLiteral || !strings.Contains(zone, ":") {
			p.fail("a time zone must be an offset such as \"+02:00\"")
		}
	}
	return scalar
}

func charAt(p *pricer, _ ast.CallExpr, args []*bound) *bound {
	p.spend(costOfFailure + costOfCall + costOfRunes*args[0].text)
	return &bound{text: utf8.UTFMax}
}

// rewrite is a function that decodes the text and encodes some of its runes: an invalid byte
// becomes a rune of 3 bytes.
func rewrite(p *pricer, _ ast.CallExpr, args []*bound) *bound {
	p.spend(costOfFailure + costOfCall + costOfRewritingRune*args[0].text)
	return &bound{text: 3 * args[0].text}
}

// indexOf compares the text at each position.
func indexOf(p *pricer, _ ast.CallExpr, args []*bound) *bound {
	text, part := args[0].text, args[1].text
	p.spend(costOfFailure + costOfCall + costOfRunes*(text+part) + costOfComparedRune*text*(1+min(part, text)))
	return scalar
}

func replace(p *pricer, call ast.CallExpr, args []*bound) *bound {
	text, replacement := args[0].text, args[2].text
	count := text + 1
	if old, isLiteral := literalOf(call); isLiteral && old != "" {
		count = text / float64(len(old))
	}
	result := &bound{text: text + count*replacement}
	p.spend(costOfCall + costOfSearch*(text+args[1].text) + costOfOccurrence*count + costOfCopy*result.text)
	return result
}

// split returns at most maxParts parts, see splitText.
func split(p *pricer, call ast.CallExpr, args []*bound) *bound {
	parts := min(maxParts, args[0].text+1)
	if all := argumentsOf(call); len(all) > 2 && all[2].Kind() == ast.LiteralKind {
		if limit, isInt := all[2].AsLiteral().(types.Int); isInt && limit >= 0 {
			parts = min(parts, float64(limit))
		}
	}
	counting := costOfCounting
	if separator, isLiteral := literalOf(call); isLiteral && len(separator) == 1 {
		counting = costOfCountingByte
	}
	p.spend(costOfCall + counting*args[0].text + costOfSearch*args[1].text + costOfPart*parts)
	return listOf(parts, args[0])
}
