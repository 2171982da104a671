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

// MaxCost is what an expression may cost, in the units of CEL, for the most
// expensive request there can be. It is judged when the expression is compiled,
// so that no caller can make an expression fail by what it sends; evaluation
// stops there all the same.
const MaxCost = 100_000

// The most expensive request there can be. What is larger is an error when it
// is read.
const (
	maxText    = 8 << 10 // bytes of a value
	maxEntries = 128     // of a map: headers, and entries of descriptors
)

// refusedFunctions make values whose size the CEL library does not estimate
// well enough to judge what is done with them.
var refusedFunctions = []string{"format", "join", "strings.quote"}

// judgeCost refuses an expression that may be too expensive.
func judgeCost(env *cel.Env, checked *cel.Ast) error {
	m := makingsOf(checked.NativeRep())
	if m.refused != "" {
		return fmt.Errorf("function %s is not available", m.refused)
	}
	// The library knows the size of what it finds in the text, and nothing of
	// what comes out of a split. Both estimates are upper bounds: one is enough.
	for _, others := range []*checker.SizeEstimate{nil, m.largest()} {
		cost, err := env.EstimateCost(checked, sizes{others})
		if err != nil {
			return err
		}
		if cost.Max <= MaxCost {
			return nil
		}
	}
	return fmt.Errorf("may cost more than %d units for values of %d bytes and %d headers or descriptor entries", MaxCost, maxText, maxEntries)
}

// sizes tells the library how large values can be.
type sizes struct {
	others *checker.SizeEstimate // of what is no variable; nil leaves it to the library
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
		return s.others
	default:
		return nil // the library knows the others
	}
}

// EstimateCallCost implements checker.CostEstimator: the library knows.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// makings are what the values of an expression are made of and by, which
// bounds their size.
type makings struct {
	checked *ast.AST
	refused string
	mass    uint64 // all that values are made of, together
	growth  uint64 // how much larger replacing makes a value
	grows   bool   // makes larger values of smaller ones
	loops   bool
}

func makingsOf(checked *ast.AST) *makings {
	m := &makings{checked: checked, mass: 1, growth: 1}
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(m.visit))
	return m
}

// largest bounds every value in the expression: nothing is larger than all
// that it is made of, unless a loop makes it grow again and again.
func (m *makings) largest() *checker.SizeEstimate {
	if m.loops && m.grows {
		return nil
	}
	return &checker.SizeEstimate{Max: times(m.mass, m.growth)}
}

// textOfScalar is more than the text of any number or time.
const textOfScalar = 64

func (m *makings) visit(e ast.Expr) {
	m.mass++
	switch e.Kind() {
	case ast.IdentKind:
		if slices.Contains(variables, e.AsIdent()) {
			m.mass += maxText
		}
	case ast.LiteralKind:
		m.mass += sizeOf(e)
	case ast.ComprehensionKind:
		m.loops = true
	case ast.CallKind:
		m.mass += textOfScalar
		m.call(e, e.AsCall())
	default: // is made of others
	}
}

func (m *makings) call(e ast.Expr, call ast.CallExpr) {
	switch name := call.FunctionName(); {
	case slices.Contains(refusedFunctions, name):
		m.refused = name
	case name == operators.Add:
		m.grows = m.grows || !isScalar(m.checked.GetType(e.ID())) && !isAccumulator(call.Args()[0])
	case name == "replace":
		m.grows = true
		if with := call.Args()[1]; with.Kind() == ast.LiteralKind {
			m.growth = times(m.growth, sizeOf(with)+1)
		} else {
			m.growth = math.MaxUint64
		}
	}
}

// isAccumulator reports whether the expression is the list that a macro such
// as map() is putting together.
func isAccumulator(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == parser.HiddenAccumulatorName
}

// isScalar reports whether values of the type are small.
func isScalar(t *cel.Type) bool {
	switch t.Kind() {
	case types.IntKind, types.UintKind, types.DoubleKind, types.DurationKind, types.TimestampKind:
		return true
	default:
		return false
	}
}

// sizeOf is the size of a literal.
func sizeOf(literal ast.Expr) uint64 {
	switch value := literal.AsLiteral().(type) {
	case types.String:
		return uint64(len(value))
	case types.Bytes:
		return uint64(len(value))
	}
	return 1
}

// times multiplies, up to what a uint64 holds.
func times(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}
