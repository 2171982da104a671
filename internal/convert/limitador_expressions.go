// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// limitadorExpression is an expression of Limitador over the first descriptor.
//
// Limitador evaluates from the left, and reading an absent entry ends the evaluation: the limit then does not apply. In
// policies an absent entry reads as "", so the conversion guards each read that is not certain with a test for the entry.
type limitadorExpression struct {
	source string
	root   ast.Expr
	info   *ast.SourceInfo
}

// parseLimitador parses the text and replaces descriptors[0] with the policy's descriptor. It returns an error for
// entries whose keys are not constants: no test can guard them.
func parseLimitador(text string) (*limitadorExpression, error) {
	p, err := parser.NewParser() // without macros: has() stays as it is written
	if err != nil {
		return nil, err
	}
	parsed, problems := p.Parse(common.NewTextSource(text))
	if found := problems.GetErrors(); len(found) > 0 {
		return nil, errors.New(found[0].Message)
	}
	e := &limitadorExpression{source: text, root: parsed.Expr(), info: parsed.SourceInfo()}
	factory := ast.NewExprFactory()
	isDynamic := false
	ast.PostOrderVisit(e.root, ast.NewExprVisitor(func(node ast.Expr) {
		if isFirstDescriptor(node) {
			node.SetKindCase(factory.NewIdent(node.ID(), "descriptor"))
		}
		if node.Kind() == ast.CallKind && node.AsCall().FunctionName() == operators.Index {
			_, isConstant := entryOf(node)
			isDynamic = isDynamic || isDescriptor(node.AsCall().Args()[0]) && !isConstant
		}
	}))
	if isDynamic {
		return nil, errors.New("it reads an entry whose key is not a constant")
	}
	return e, nil
}

// isFirstDescriptor reports whether the node is descriptors[0].
func isFirstDescriptor(node ast.Expr) bool {
	if node.Kind() != ast.CallKind || node.AsCall().FunctionName() != operators.Index {
		return false
	}
	list, index := node.AsCall().Args()[0], node.AsCall().Args()[1]
	return list.Kind() == ast.IdentKind && list.AsIdent() == "descriptors" &&
		index.Kind() == ast.LiteralKind && index.AsLiteral() == types.Int(0)
}

func isDescriptor(node ast.Expr) bool {
	return node.Kind() == ast.IdentKind && node.AsIdent() == "descriptor"
}

// entryOf returns the key of the entry that the node reads.
func entryOf(node ast.Expr) (key string, isEntry bool) {
	switch node.Kind() {
	case ast.SelectKind:
		if isDescriptor(node.AsSelect().Operand()) {
			return node.AsSelect().FieldName(), true
		}
	case ast.CallKind:
		args := node.AsCall().Args()
		if node.AsCall().FunctionName() == operators.Index && isDescriptor(args[0]) && args[1].Kind() == ast.LiteralKind {
			text, isText := args[1].AsLiteral().(types.String)
			return string(text), isText
		}
	default:
	}
	return "", false
}

// text returns the node as CEL.
func (e *limitadorExpression) text(node ast.Expr) (string, error) {
	return parser.Unparse(node, e.info)
}

// operands returns the operator and its operands if the evaluation may leave one of them out.
func operands(node ast.Expr) (operator string, args []ast.Expr) {
	if node.Kind() == ast.CallKind {
		switch operator = node.AsCall().FunctionName(); operator {
		case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional:
			return operator, node.AsCall().Args()
		}
	}
	return "", nil
}

// reads returns the keys of all entries that the node may read. has() reads none.
func reads(node ast.Expr) (keys []string) {
	if key, isEntry := entryOf(node); isEntry {
		return []string{key}
	}
	switch node.Kind() {
	case ast.SelectKind:
		return reads(node.AsSelect().Operand())
	case ast.CallKind:
		call := node.AsCall()
		if call.FunctionName() == "has" && !call.IsMemberFunction() {
			return nil
		}
		if call.IsMemberFunction() {
			keys = reads(call.Target())
		}
		for _, arg := range call.Args() {
			keys = union(keys, reads(arg))
		}
	case ast.ListKind:
		for _, element := range node.AsList().Elements() {
			keys = union(keys, reads(element))
		}
	default:
	}
	return keys
}

// certainReads returns the keys of the entries that every evaluation reads.
func certainReads(node ast.Expr) []string {
	switch operator, args := operands(node); operator {
	case "":
		return reads(node)
	case operators.Conditional:
		return union(certainReads(args[0]), intersection(certainReads(args[1]), certainReads(args[2])))
	default:
		return certainReads(args[0])
	}
}

// neededReads returns the keys of the entries without which the condition cannot be true.
func neededReads(node ast.Expr) []string {
	if operator, args := operands(node); operator == operators.LogicalAnd {
		return union(neededReads(args[0]), neededReads(args[1]))
	}
	return certainReads(node)
}

// holds returns the condition of policies that is true if the node evaluates to want, in a descriptor that has the
// entries of present. It is false if the evaluation ends at an absent entry.
func (e *limitadorExpression) holds(node ast.Expr, want bool, present []string) (string, error) {
	operator, args := operands(node)
	absent := without(reads(node), present)
	switch {
	case len(absent) == 0 || operator == "":
		return e.guarded(node, want, absent)
	case operator == operators.LogicalNot:
		return e.holds(args[0], !want, present)
	}
	// Each way to the result is a list of operands with their values.
	yes, no := operand{args[0], true}, operand{args[0], false}
	var ways [][]operand
	switch {
	case operator == operators.Conditional:
		ways = [][]operand{{yes, {args[1], want}}, {no, {args[2], want}}}
	case (operator == operators.LogicalAnd) == want:
		ways = [][]operand{{{args[0], want}, {args[1], want}}}
	default: // the first operand alone decides, or else the second
		ways = [][]operand{{{args[0], want}}, {{args[0], !want}, {args[1], want}}}
		if len(without(reads(args[0]), present)) == 0 {
			ways[1] = ways[1][1:] // the first operand is one of both
		}
	}
	return e.anyOf(ways, present)
}

type operand struct {
	node ast.Expr
	want bool
}

// anyOf returns the condition that all operands of one of the ways have their values.
func (e *limitadorExpression) anyOf(ways [][]operand, present []string) (string, error) {
	var conditions []string
	for _, way := range ways {
		var all []string
		for _, o := range way {
			condition, err := e.holds(o.node, o.want, present)
			if err != nil {
				return "", err
			}
			all = append(all, condition)
		}
		conditions = append(conditions, joinConditions(" && ", all))
	}
	joined := joinConditions(" || ", conditions)
	if len(joined) > plan.MaxExpression { // also bounds the time: an operand may occur in several ways
		return "", fmt.Errorf("with tests for absent entries it has more than %d characters", plan.MaxExpression)
	}
	return joined, nil
}

// guarded returns the condition that the entries of absent are there and the node has the value.
func (e *limitadorExpression) guarded(node ast.Expr, want bool, absent []string) (string, error) {
	text, err := e.text(node)
	if err != nil {
		return "", err
	}
	var conditions []string
	for _, key := range absent {
		conditions = append(conditions, strconv.Quote(key)+" in descriptor")
	}
	operator, _ := operands(node)
	if !want || operator != "" && operator != operators.LogicalNot {
		text = "(" + text + ")"
	}
	if !want {
		text = "!" + text
	}
	return joinConditions(" && ", append(conditions, text)), nil
}

// joinConditions joins the conditions in parentheses, one alone without.
func joinConditions(operator string, conditions []string) string {
	if len(conditions) == 1 {
		return conditions[0]
	}
	return "(" + strings.Join(conditions, operator) + ")"
}

func union(a, b []string) []string {
	return append(slices.Clone(a), without(b, a)...)
}

func intersection(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(key string) bool { return !slices.Contains(b, key) })
}

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(key string) bool { return slices.Contains(b, key) })
}
