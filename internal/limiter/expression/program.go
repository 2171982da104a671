// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// newInterpreter returns the interpreter that all programs of the environment share. A cel.Program would have one of its
// own, with a table of all functions, which takes more memory than the rest of most programs.
func newInterpreter(env *cel.Env) (interpreter.Interpreter, error) {
	dispatcher := interpreter.NewDispatcher()
	for _, function := range env.Functions() {
		overloads, err := function.Bindings()
		if err != nil {
			return nil, err
		}
		if err := dispatcher.Add(overloads...); err != nil {
			return nil, err
		}
	}
	provider, adapter := env.CELTypeProvider(), env.CELTypeAdapter()
	attributes := interpreter.NewAttributeFactory(env.Container, adapter, provider)
	return interpreter.NewInterpreter(dispatcher, env.Container, provider, adapter, attributes), nil
}

// program is a checked expression, ready to be evaluated by any number of goroutines.
type program struct{ root interpreter.InterpretableV2 }

// prepare makes the program of a checked expression with these patterns.
func (env environment) prepare(checked *ast.AST, patterns map[string]*pattern) (program, error) {
	root, err := env.interpreter.NewInterpretable(checked,
		interpreter.CustomDecorator(replaceSlowFunctions(patterns)), interpreter.Optimize())
	return program{root}, err
}

// evaluate returns the result for the variables, a cel.Activation or a map. An error that the expression yields is a
// *types.Err; all others wrap ErrInternal.
func (p program) evaluate(variables any) (result ref.Val, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: %v", ErrInternal, cause)
		}
	}()
	frame, err := interpreter.NewExecutionFrame(variables)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInternal, err)
	}
	defer frame.Close()
	result = p.root.Exec(frame)
	if failure, isError := result.(*types.Err); isError {
		return nil, failure
	}
	return result, nil
}
