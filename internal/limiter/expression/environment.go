// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The variables of expressions. All are strings but two maps of strings: the headers
// by lower-case name, and the entries of the descriptor. What is not known is empty.
const (
	method        = "request.method"
	host          = "request.host"
	path          = "request.path"
	headers       = "request.headers"
	domain        = "request.domain"
	descriptor    = "descriptor"
	principal     = "principal"
	remoteAddress = "remoteAddress"
)

var variables = []string{method, host, path, headers, domain, descriptor, principal, remoteAddress}

// isMap reports whether the variable is a map.
func isMap(variable string) bool { return variable == headers || variable == descriptor }

// stringsVersion pins the functions on strings: a later version of the library
// may have more, and every release must refuse what the others do not know.
const stringsVersion = 5

// environment returns what all expressions are compiled against.
var environment = sync.OnceValue(func() *cel.Env {
	options := []cel.EnvOption{
		ext.Strings(ext.StringsVersion(stringsVersion)),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
	for _, name := range variables {
		kind := cel.StringType
		if isMap(name) {
			kind = cel.MapType(cel.StringType, cel.StringType)
		}
		options = append(options, cel.Variable(name, kind))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic(err) // the options are constants
	}
	return env
})

// request gives an expression its variables, each only when it is asked for.
type request struct {
	*plan.Attributes
	descriptors []plan.Descriptor
}

// ResolveName implements cel.Activation.
func (r request) ResolveName(name string) (any, bool) {
	switch name {
	case method:
		return bounded(r.Method), true
	case host:
		return bounded(r.Host), true
	case path:
		return bounded(r.Path), true
	case headers:
		return newTextMap(r.Headers, strings.ToLower), true
	case domain:
		return bounded(r.Domain), true
	case descriptor:
		return newTextMap(entriesOf(r.descriptors), exactly), true
	case principal:
		return bounded(r.Principal), true
	case remoteAddress:
		if !r.RemoteAddress.IsValid() {
			return types.String(""), true
		}
		return types.String(r.RemoteAddress.String()), true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (request) Parent() cel.Activation { return nil }

// bounded refuses what is longer than the cost of expressions was judged by.
func bounded(value string) ref.Val {
	if len(value) > maxText {
		return types.NewErr("a value of %d bytes is longer than %d", len(value), maxText)
	}
	return types.String(value)
}
