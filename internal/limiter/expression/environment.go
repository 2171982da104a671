// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The variables of expressions. All are strings but the headers, which map
// lower-case names to values. What is not known is empty.
const (
	method        = "request.method"
	host          = "request.host"
	path          = "request.path"
	headers       = "request.headers"
	principal     = "principal"
	remoteAddress = "remoteAddress"
)

var variables = []string{method, host, path, headers, principal, remoteAddress}

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
		if name == headers {
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
type request struct{ *plan.Attributes }

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
		return headersOf(r.Headers), true
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

// headerMap are the headers as a CEL map, except that names are found in any
// case and an absent header reads as the empty string. What tells which are
// there, `in` and has(), still does.
type headerMap struct {
	celMap
	headers map[string]string
}

// celMap is what CEL asks of a map. It leaves out traits.Mapper's Find, by which
// has() would take a header that reads as empty for one that is there.
type celMap interface {
	ref.Val
	traits.Container
	traits.Indexer
	traits.Iterable
	traits.Sizer
}

func headersOf(headers map[string]string) ref.Val {
	if len(headers) > maxHeaders {
		return types.NewErr("there are %d headers, more than %d", len(headers), maxHeaders)
	}
	return headerMap{types.NewStringStringMap(types.DefaultTypeAdapter, headers), headers}
}

// Get implements traits.Indexer.
func (m headerMap) Get(name ref.Val) ref.Val {
	text, ok := name.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(name)
	}
	return bounded(m.headers[strings.ToLower(string(text))])
}

// Contains implements traits.Container.
func (m headerMap) Contains(name ref.Val) ref.Val {
	text, ok := name.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(name)
	}
	_, present := m.headers[strings.ToLower(string(text))]
	return types.Bool(present)
}

// IsSet implements traits.FieldTester.
func (m headerMap) IsSet(name ref.Val) ref.Val { return m.Contains(name) }
