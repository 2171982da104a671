// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"errors"
	"testing"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Every text compiles or is rejected; a compiled expression can be evaluated.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		`request.headers["x-tier"] != "internal" && has(request.headers.a)`,
		`request.path.split("/")[0].lowerAscii() in ["a"]`,
		`principal.matches("^[a-z]+$") ? remoteAddress : string(timestamp("2020-01-01T00:00:00Z"))`,
		`{"a": 1}.all(k, [[b"x"]].exists_one(x, x == x)) || duration("1s") > duration("1ms")`,
	} {
		// The target would check nothing if no text compiled.
		_, conditionErr := expression.Compile[bool](text)
		_, valueErr := expression.Compile[string](text)
		if conditionErr != nil && valueErr != nil {
			f.Fatal(text, conditionErr, valueErr)
		}
		f.Add(text)
	}
	f.Add(`request.path.split("/").filter(s, s.size() > 1).map(s, s + s)[0] in ["a"]`) // too expensive
	f.Add(`request.headers == dyn({1: 2}) || type(request.headers) == map`)
	unusual := someRequest()
	unusual.Principal = "\xff\x00{}%"
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range []*plan.Attributes{someRequest(), unusual, {}} {
			evaluateBoth(t, text, a)
		}
	})
}

// For any request Evaluate returns a value, or an error that the expression yields.
func FuzzEvaluate(f *testing.F) {
	f.Add("GET", "a.example", "/a/b", "x-tier", "gold", "alice", uint8(0))
	f.Add("", "", "", "", "\xff", "\x00", uint8(3))
	var conditions []*expression.Expression[bool]
	for _, text := range []string{
		`request.path.split("/")[1] == request.headers["x-tier"]`,
		`request.headers.exists(n, request.headers[n].startsWith("g")) || principal.matches("^a.*e$")`,
		`int(principal.substring(1, 2)) == request.host.indexOf("a") && request.method.charAt(1) == "E"`,
		`descriptor.exists(k, int(descriptor[k]) > 1) || descriptor[request.domain].charAt(0) == "x"`,
		`(request.host.replace(".", "..") + principal).upperAscii() < request.path`,
	} {
		compiled, err := expression.Compile[bool](text)
		if err != nil {
			f.Fatal(err)
		}
		conditions = append(conditions, compiled)
		// The target would check nothing if a panic of the library had another error.
		if _, err := compiled.Evaluate(nil, nil); !errors.Is(err, expression.ErrInternal) {
			f.Fatal("an evaluation without attributes panics and yields", err)
		}
	}
	f.Fuzz(func(t *testing.T, method, host, path, name, value, principal string, which uint8) {
		a := &plan.Attributes{
			Method: method, Host: host, Path: path, Principal: principal, Headers: map[string]string{name: value},
			Domain: host, Descriptors: []plan.Descriptor{{{Key: name, Value: value}}, {{Key: value, Value: name}}},
		}
		_, err := conditions[int(which)%len(conditions)].Evaluate(a, a.Descriptors)
		expectNoInternalError(t, err)
	})
}

func evaluateBoth(t *testing.T, text string, a *plan.Attributes) {
	t.Helper()
	if condition, err := expression.Compile[bool](text); err == nil {
		_, err = condition.Evaluate(a, a.Descriptors)
		expectNoInternalError(t, err)
	} else {
		expectNoInternalError(t, err)
	}
	if value, err := expression.Compile[string](text); err == nil {
		_, err = value.Evaluate(a, a.Descriptors)
		expectNoInternalError(t, err)
	}
}

func expectNoInternalError(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, expression.ErrInternal) {
		t.Error(err)
	}
}
