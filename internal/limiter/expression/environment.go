// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"fmt"
	"slices"
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

var variables = [variableCount]string{
	method, host, path, headers, query, cookies, domain, descriptor, claims, principal, remoteAddress,
}

// typeOfVariable returns the type of the variable.
func typeOfVariable(name string) *cel.Type {
	texts := cel.MapType(cel.StringType, cel.StringType)
	switch name {
	case headers, query, cookies, descriptor:
		return texts
	case claims:
		return cel.MapType(cel.StringType, texts)
	default:
		return cel.StringType
	}
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
var ofRequests = sync.OnceValue(func() environment { return newEnvironment(typeOfVariable, variables[:]...) })

// newEnvironment returns an environment with these variables, and the functions of all expressions.
func newEnvironment(typeOf func(variable string) *cel.Type, variables ...string) environment {
	options := []cel.EnvOption{
		ext.Strings(ext.StringsVersion(stringsVersion)),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
	for _, name := range variables {
		options = append(options, cel.Variable(name, typeOf(name)))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic(err) // the options are constants
	}
	shared, err := newInterpreter(env)
	if err != nil {
		panic(err) // the functions of the library have bindings
	}
	return environment{env, variables, shared}
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
	i := slices.Index(variables[:], name)
	if i < 0 {
		return nil, false
	}
	if r.resolved[i] == nil {
		r.resolved[i] = r.resolve(name)
	}
	return r.resolved[i], true
}

func (r *request) resolve(name string) ref.Val {
	switch name {
	case method:
		return boundedString(r.Method)
	case host:
		return boundedString(r.Host)
	case path:
		return boundedString(r.Path)
	case headers, query, cookies, descriptor, claims:
		return r.resolveMap(name)
	case domain:
		return boundedString(r.Domain)
	case principal:
		if r.forKey && r.PrincipalRepeated {
			return unreadable("there are several principals")
		}
		return boundedString(r.Principal)
	default:
		if !r.RemoteAddress.IsValid() {
			return types.String("")
		}
		return types.String(r.RemoteAddress.String())
	}
}

func (r *request) resolveMap(name string) ref.Val {
	switch name {
	case headers:
		return r.headerMap()
	case query:
		return valueMap(r.QueryValues())
	case cookies:
		return valueMap(r.CookieValues())
	case claims:
		return newClaimMap(r.Claims)
	default:
		return newDescriptorMap(r.descriptors)
	}
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
