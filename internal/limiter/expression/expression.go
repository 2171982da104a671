// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/cel"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Result is the type that an expression yields.
type Result interface{ bool | string }

// Expression is a compiled expression. It is safe for concurrent use.
type Expression[T Result] struct {
	program      program
	price, scans time.Duration
}

// Price returns the time that an evaluation takes at most, whatever the request, on the machine
// that the prices were measured on. It is at most MaxPrice.
func (e *Expression[T]) Price() time.Duration { return e.price }

// Scans returns the part of the price for reading the entries of all descriptors, at most
// MaxScannedEntries and MaxScannedKeyBytes. Evaluations for one descriptor each read no more together.
func (e *Expression[T]) Scans() time.Duration { return e.scans }

// Compile compiles the text of an expression. A price above MaxPrice is an error. Errors are one
// line, most with the position in the text.
func Compile[T Result](text string) (*Expression[T], error) {
	program, priced, err := ofRequests().compile(text, typeOf[T](), MaxPrice)
	if err != nil {
		return nil, err
	}
	return &Expression[T]{program: program, price: time.Duration(priced.nanoseconds), scans: time.Duration(priced.scans)}, nil
}

// compile compiles the text to a program that yields the type for at most the price.
func (env environment) compile(text string, want *cel.Type, maxPrice time.Duration) (compiled program, p priced, err error) {
	// All replicas compile the texts of policy authors: a panic of the library must not
	// end all replicas.
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: %v", ErrInternal, cause)
		}
	}()
	if utf8.RuneCountInString(text) > plan.MaxExpression {
		return compiled, p, fmt.Errorf("is longer than %d characters", plan.MaxExpression)
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return compiled, p, oneLine(text, issues, env.variables)
	}
	if !checked.OutputType().IsExactType(want) {
		return compiled, p, fmt.Errorf("must yield %s, not %s", want, checked.OutputType())
	}
	if p, err = priceOf(checked.NativeRep(), want == cel.StringType); err != nil {
		return compiled, p, err
	}
	if isAffordable := p.nanoseconds <= float64(maxPrice); !isAffordable {
		return compiled, p, tooExpensive(p.nanoseconds, maxPrice)
	}
	if err = checkHeap(p.patterns); err != nil {
		return compiled, p, err
	}
	compiled, err = env.prepare(checked.NativeRep(), p.patterns)
	return compiled, p, err
}

// ErrInternal means that the CEL library failed in a way that neither the text nor the request explains.
var ErrInternal = errors.New("internal error of the CEL library")

// Evaluate returns the result of the expression for the normalized attributes and the
// descriptors, which may be some of the attributes' descriptors. Errors that a client can cause wrap
// ErrUnreadable. An error that wraps ErrInternal is a defect.
func (e *Expression[T]) Evaluate(a *plan.Attributes, descriptors []plan.Descriptor) (T, error) {
	var zero T
	result, err := e.program.evaluate(&request{Attributes: a, descriptors: descriptors, forKey: isText[T]()})
	if err != nil {
		return zero, err
	}
	value, ok := result.Value().(T)
	if !ok {
		return zero, fmt.Errorf("yields %s", result.Type().TypeName())
	}
	return value, nil
}

func typeOf[T Result]() *cel.Type {
	if isText[T]() {
		return cel.StringType
	}
	return cel.BoolType
}

// isText reports whether the result is a part of a key.
func isText[T Result]() bool {
	_, text := any(*new(T)).(string)
	return text
}
