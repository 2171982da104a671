// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// MaxCost is the largest cost of an expression, in the units of CEL, for the most expensive
// request. Compile estimates the cost, so that no request can make a compiled expression
// fail; evaluation is limited to the same cost.
const MaxCost = 100_000

// The bounds of the most expensive request. Reading a larger value is an error.
const (
	maxText    = 8 << 10 // bytes of a value
	maxEntries = 128     // of a map: headers, and entries of descriptors
)

// unavailableFunctions return values whose size the CEL library cannot estimate well enough
// to bound the cost of using them.
var unavailableFunctions = []string{"format", "join", "strings.quote"}

// checkCost rejects an expression that may be too expensive.
func checkCost(env *cel.Env, checked *cel.Ast) error {
	bound := newSizeBound(checked.NativeRep())
	if bound.unavailable != "" {
		return fmt.Errorf("function %s is not available", bound.unavailable)
	}
	// The library estimates the size of literals, but not, for example, of the result of
	// a split. Both estimates are upper bounds: one is enough.
	for _, unknown := range []*checker.SizeEstimate{nil, bound.largest()} {
		cost, err := env.EstimateCost(checked, sizes{unknown: unknown})
		if err != nil {
			return err
		}
		if cost.Max <= MaxCost {
			return nil
		}
	}
	return fmt.Errorf("may cost more than %d units for values of %d bytes and %d headers or descriptor entries", MaxCost, maxText, maxEntries)
}

// sizes estimates the sizes of values for the library.
type sizes struct {
	unknown *checker.SizeEstimate // of values that are not variables; nil uses the library's
}

// EstimateSize implements checker.CostEstimator.
func (s sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if at := node.Path(); len(at) > 0 && slices.Contains(variables, at[0]) {
		if len(at) == 1 && isMap(at[0]) {
			return &checker.SizeEstimate{Max: maxEntries}
		}
		return &checker.SizeEstimate{Max: maxText}
	}
	switch node.Type().Kind() {
	case types.StringKind, types.BytesKind, types.ListKind, types.MapKind, types.DynKind:
		return s.unknown
	default:
		return nil // the estimate of the library
	}
}

// EstimateCallCost implements checker.CostEstimator with the estimate of the library.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// sizeBound computes a bound of the size of all values in an expression: the total size of
// its parts, times the growth by replacing.
type sizeBound struct {
	checked     *ast.AST
	unavailable string
	total       uint64 // size of all parts of the expression
	growth      uint64 // factor by which replacing enlarges a value
	grows       bool   // a call may return a value larger than its arguments
	loops       bool
}

func newSizeBound(checked *ast.AST) *sizeBound {
	b := &sizeBound{checked: checked, total: 1, growth: 1}
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(b.visit))
	return b
}

// largest returns a bound of every value in the expression, or nil if a loop can make
// values grow without bound.
func (b *sizeBound) largest() *checker.SizeEstimate {
	if b.loops && b.grows {
		return nil
	}
	return &checker.SizeEstimate{Max: saturatingMul(b.total, b.growth)}
}

// maxScalarText bounds the text of any number or time.
const maxScalarText = 64

func (b *sizeBound) visit(e ast.Expr) {
	b.total++
	switch e.Kind() {
	case ast.IdentKind:
		if slices.Contains(variables, e.AsIdent()) {
			b.total += maxText
		}
	case ast.LiteralKind:
		b.total += sizeOf(e)
	case ast.ComprehensionKind:
		b.loops = true
	case ast.CallKind:
		b.total += maxScalarText
		b.call(e, e.AsCall())
	default: // consists of other expressions
	}
}

func (b *sizeBound) call(e ast.Expr, call ast.CallExpr) {
	switch name := call.FunctionName(); {
	case slices.Contains(unavailableFunctions, name):
		b.unavailable = name
	case name == operators.Add:
		b.grows = b.grows || !isScalar(b.checked.GetType(e.ID())) && !isAccumulator(call.Args()[0])
	case name == "replace":
		b.grows = true
		if with := call.Args()[1]; with.Kind() == ast.LiteralKind {
			b.growth = saturatingMul(b.growth, sizeOf(with)+1)
		} else {
			b.growth = math.MaxUint64
		}
	}
}

// isAccumulator reports whether the expression is the list that a macro such as map()
// builds.
func isAccumulator(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == parser.HiddenAccumulatorName
}

// isScalar reports whether values of the type are numbers or times.
func isScalar(t *cel.Type) bool {
	switch t.Kind() {
	case types.IntKind, types.UintKind, types.DoubleKind, types.DurationKind, types.TimestampKind:
		return true
	default:
		return false
	}
}

// sizeOf returns the size of a literal.
func sizeOf(literal ast.Expr) uint64 {
	switch value := literal.AsLiteral().(type) {
	case types.String:
		return uint64(len(value))
	case types.Bytes:
		return uint64(len(value))
	}
	return 1
}

// saturatingMul returns a*b, or the largest uint64 on overflow.
func saturatingMul(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}
