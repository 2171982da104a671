// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expression evaluates the CEL expressions of policies on the
// attributes of a request.
//
// An expression is compiled once, against the variables and functions in
// environment.go, and evaluated by any number of goroutines. It must be cheap
// for every request there can be: see cost.go.
package expression

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Result is what an expression may yield.
type Result interface{ bool | string }

// Expression is a compiled expression. It may be used by any number of
// goroutines.
type Expression[T Result] struct{ program cel.Program }

// Compile compiles the text of an expression. Errors say where in the text
// something is wrong, in one line.
func Compile[T Result](text string) (compiled *Expression[T], err error) {
	// The text comes from whoever may write policies, and every replica compiles
	// it: a fault of the library must not end them all.
	defer func() {
		if cause := recover(); cause != nil {
			compiled, err = nil, fmt.Errorf("%w: %v", errInternal, cause)
		}
	}()
	if utf8.RuneCountInString(text) > plan.MaxExpression {
		return nil, fmt.Errorf("is longer than %d characters", plan.MaxExpression)
	}
	env := environment()
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, readable(issues)
	}
	if want := typeOf[T](); !checked.OutputType().IsExactType(want) {
		return nil, fmt.Errorf("must yield %s, not %s", want, checked.OutputType())
	}
	if err := judgeCost(env, checked); err != nil {
		return nil, err
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(MaxCost))
	if err != nil {
		return nil, err
	}
	return &Expression[T]{program}, nil
}

var errInternal = errors.New("internal error of the CEL library")

// Evaluate returns what the expression yields for the normalised attributes and
// those of its descriptors that are to be read.
func (e *Expression[T]) Evaluate(a *plan.Attributes, descriptors []plan.Descriptor) (T, error) {
	var none T
	result, _, err := e.program.Eval(request{a, descriptors})
	if err != nil {
		return none, err
	}
	value, ok := result.Value().(T)
	if !ok {
		return none, fmt.Errorf("yields %s", result.Type().TypeName())
	}
	return value, nil
}

func typeOf[T Result]() *cel.Type {
	if _, isText := any(*new(T)).(string); isText {
		return cel.StringType
	}
	return cel.BoolType
}

// readable puts the issues into one line, for messages of conditions.
func readable(issues *cel.Issues) error {
	problems := make([]string, 0, len(issues.Errors()))
	for _, e := range issues.Errors() {
		problem := e.Message
		if line := e.Location.Line(); line > 0 { // else it is about the whole
			problem = fmt.Sprintf("%d:%d: %s", line, e.Location.Column()+1, problem)
		}
		if strings.HasPrefix(e.Message, "undeclared reference") {
			problem += "; the variables are " + strings.Join(variables, ", ")
		}
		problems = append(problems, problem)
	}
	return errors.New(strings.Join(problems, "; "))
}
