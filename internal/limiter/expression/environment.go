// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The variables of expressions. All are strings except two maps of strings: the headers by
// lower-case name, and the entries of the descriptor. Absent facts are empty.
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

// stringsVersion pins the string functions: a later version may have more, and all releases
// must reject the same expressions.
const stringsVersion = 5

// environment returns the CEL environment of all expressions.
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

// request resolves the variables of an expression on first use.
type request struct {
	*plan.Attributes
	descriptors []plan.Descriptor
	// forKey is true for a part of a key: reading a repeated header or principal is an error.
	forKey bool
}

// ResolveName implements cel.Activation.
func (r request) ResolveName(name string) (any, bool) {
	switch name {
	case method:
		return boundedString(r.Method), true
	case host:
		return boundedString(r.Host), true
	case path:
		return boundedString(r.Path), true
	case headers:
		return r.headerMap(), true
	case domain:
		return boundedString(r.Domain), true
	case descriptor:
		return newDescriptorMap(r.descriptors), true
	case principal:
		if r.forKey && r.PrincipalRepeated {
			return unreadable("there are several principals"), true
		}
		return boundedString(r.Principal), true
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

func (r request) headerMap() ref.Val {
	m := textMap{celMap: largeMap{size: func() int { return len(r.Headers) }}, lookup: r.header}
	if len(r.Headers) <= maxEntries {
		m.celMap = types.NewStringStringMap(types.DefaultTypeAdapter, r.Headers)
	}
	if r.forKey {
		m.repeated = r.RepeatedHeaders
	}
	return m
}

func (r request) header(name string) (string, bool) {
	value, present := r.Headers[strings.ToLower(name)]
	return value, present
}

// ErrUnreadable is the error of an expression that reads a value that is larger than the cost
// estimate allows, or a part of a key from a header or principal that is repeated. A client can
// cause it.
var ErrUnreadable = errors.New("unreadable")

func unreadable(format string, arguments ...any) ref.Val {
	return types.WrapErr(fmt.Errorf("%w: %s", ErrUnreadable, fmt.Sprintf(format, arguments...)))
}

// boundedString returns the value, or an error if it is longer than the cost estimate allows.
func boundedString(value string) ref.Val {
	if len(value) > maxText {
		return unreadable("a value of %d bytes is longer than %d", len(value), maxText)
	}
	return types.String(value)
}
