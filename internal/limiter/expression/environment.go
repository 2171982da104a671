// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The variables of expressions. All are strings except maps of strings: the headers by lower-case name, the parameters
// of the query, the cookies, and the entries of the descriptor; and the claims, a map of maps of strings: the claims of
// each payload. Absent facts are empty.
const (
	method        = "request.method"
	host          = "request.host"
	path          = "request.path"
	headers       = "request.headers"
	query         = "request.query"
	cookies       = "request.cookies"
	domain        = "request.domain"
	descriptor    = "descriptor"
	claims        = "claims"
	principal     = "principal"
	remoteAddress = "remoteAddress"
)

const variableCount = 11

// variable is a variable of expressions. read returns its value in a request; nil for the variable of costs.
type variable struct {
	name string
	kind *cel.Type
	read func(*request) ref.Val
}

var mapOfStrings = cel.MapType(cel.StringType, cel.StringType)

var variables = [variableCount]variable{
	{method, cel.StringType, func(r *request) ref.Val { return boundedString(r.Method) }},
	{host, cel.StringType, func(r *request) ref.Val { return boundedString(r.Host) }},
	{path, cel.StringType, func(r *request) ref.Val { return boundedString(r.Path) }},
	{headers, mapOfStrings, (*request).headerMap},
	{query, mapOfStrings, func(r *request) ref.Val { return valueMap(r.QueryValues()) }},
	{cookies, mapOfStrings, func(r *request) ref.Val { return valueMap(r.CookieValues()) }},
	{domain, cel.StringType, func(r *request) ref.Val { return boundedString(r.Domain) }},
	{descriptor, mapOfStrings, func(r *request) ref.Val { return newDescriptorMap(r.descriptors) }},
	{claims, cel.MapType(cel.StringType, mapOfStrings), func(r *request) ref.Val { return newClaimMap(r.Claims) }},
	{principal, cel.StringType, (*request).principal},
	{remoteAddress, cel.StringType, (*request).remoteAddress},
}

// stringsVersion pins the string functions: a later version may have more, and all releases
// must reject the same expressions.
const stringsVersion = 5

// environment is a CEL environment with the names of its variables and the interpreter of its programs.
type environment struct {
	*cel.Env

	variables   []string
	interpreter interpreter.Interpreter
}

// ofRequests returns the environment of expressions on the attributes of a request.
var ofRequests = sync.OnceValue(func() environment { return newEnvironment(variables[:]...) })

// newEnvironment returns an environment with these variables, and the functions of all expressions.
func newEnvironment(variables ...variable) environment {
	names := make([]string, len(variables))
	options := []cel.EnvOption{
		ext.Strings(ext.StringsVersion(stringsVersion)),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
	for i, v := range variables {
		options, names[i] = append(options, cel.Variable(v.name, v.kind)), v.name
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic(err) // the options are constants
	}
	shared, err := newInterpreter(env)
	if err != nil {
		panic(err) // the functions of the library have bindings
	}
	return environment{env, names, shared}
}

// request resolves the variables of one evaluation, each on first use: a loop may read one
// often.
type request struct {
	*plan.Attributes
	descriptors []plan.Descriptor
	// forKey is true for a part of a key: reading a repeated header or principal is an error.
	forKey bool

	resolved [variableCount]ref.Val // by index in variables
}

// ResolveName implements cel.Activation.
func (r *request) ResolveName(name string) (any, bool) {
	for i := range variables {
		if v := &variables[i]; v.name == name {
			if r.resolved[i] == nil {
				r.resolved[i] = v.read(r)
			}
			return r.resolved[i], true
		}
	}
	return nil, false
}

func (r *request) principal() ref.Val {
	if r.forKey && r.PrincipalRepeated {
		return unreadable("there are several principals")
	}
	return boundedString(r.Principal)
}

func (r *request) remoteAddress() ref.Val {
	if !r.RemoteAddress.IsValid() {
		return types.String("")
	}
	return types.String(r.RemoteAddress.String())
}

// Parent implements cel.Activation.
func (*request) Parent() cel.Activation { return nil }

// ErrUnreadable is the error of an expression that reads more than the price allows, a query parameter or cookie that
// servers may read in different ways, or a part of a key from a header or principal that is repeated. A client can
// cause it.
var ErrUnreadable = errors.New("unreadable")

// unreadableError formats its message on use: a loop may cause many that are not read.
type unreadableError struct {
	format    string
	arguments []any
}

// Error implements error.
func (e *unreadableError) Error() string {
	return ErrUnreadable.Error() + ": " + fmt.Sprintf(e.format, e.arguments...)
}

// Unwrap returns ErrUnreadable.
func (*unreadableError) Unwrap() error { return ErrUnreadable }

func unreadable(format string, arguments ...any) ref.Val {
	return types.WrapErr(&unreadableError{format: format, arguments: arguments})
}

// boundedString returns the value, or an error if it is longer than the price allows.
func boundedString(value string) ref.Val {
	if len(value) > maxText {
		return unreadable("a value of %d bytes is longer than %d", len(value), maxText)
	}
	return types.String(value)
}
