// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Reference is a fact of the request that an expression reads.
type Reference struct {
	// Variable is its name, such as "request.headers".
	Variable string
	// Member is the key in a map; empty for other variables, and for a map if the key is not
	// a constant. For claims it is the payload, and with a dot the claim if it is a constant.
	Member string
}

// References returns the facts that the valid expression reads, in the order of the text and
// each once.
func References(text string) (found []Reference, err error) {
	env := ofRequests()
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, oneLine(text, issues, env.variables)
	}
	members := map[int64]string{} // by the ID of the expression of the map
	add := func(r Reference) {
		if !slices.Contains(found, r) {
			found = append(found, r)
		}
	}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if of, member := memberOf(e); of != nil {
			if inner := members[e.ID()]; inner != "" && member != "" {
				member += "." + inner
			}
			members[of.ID()] = member
		}
		if e.Kind() == ast.IdentKind && slices.Contains(env.variables, e.AsIdent()) {
			add(Reference{Variable: e.AsIdent(), Member: members[e.ID()]})
		}
	}))
	return found, nil
}

// memberOf returns the map that the expression reads and the constant key that it looks up, or nil.
func memberOf(e ast.Expr) (of ast.Expr, member string) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName()
	case ast.CallKind:
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.Index:
			return args[0], constant(args[1])
		case operators.In:
			return args[1], constant(args[0])
		}
	default: // reads no map
	}
	return nil, ""
}

func constant(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return ""
	}
	text, _ := e.AsLiteral().(types.String)
	return string(text)
}
