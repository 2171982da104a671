// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/test/expressiontest"
)

// grammar generates random expressions, of every function, by type.
type grammar struct {
	*rand.Rand

	depth int
	loops int // around the expression: each declares a text v0, v1, ...
}

func (r *grammar) oneOf(texts ...string) string { return texts[r.IntN(len(texts))] }

// deeper returns what f generates, or the leaf if the expression is deep enough.
func (r *grammar) deeper(leaf string, f func() string) string {
	if r.depth <= 0 {
		return leaf
	}
	r.depth--
	defer func() { r.depth++ }()
	return f()
}

func (r *grammar) text() string {
	leaf := r.oneOf("request.path", "request.host", "principal", "request.method", "remoteAddress", `request.headers["x-1"]`,
		`descriptor["key-1"]`, `descriptor["none"]`, `"a"`, `"/"`, `""`, `"ab"`, `"\xff"`, `"`+strings.Repeat("a", 30)+`b"`)
	if r.loops > 0 && r.IntN(2) == 0 {
		leaf = fmt.Sprint("v", r.IntN(r.loops))
	}
	return r.deeper(leaf, func() string {
		forms := []func() string{
			func() string { return "(" + r.text() + " + " + r.text() + ")" },
			func() string { return r.text() + r.oneOf(".lowerAscii()", ".upperAscii()", ".trim()", ".reverse()") },
			func() string { return r.text() + ".replace(" + r.text() + ", " + r.text() + ")" },
			func() string { return r.text() + r.oneOf(".substring(", ".charAt(") + r.number() + ")" },
			func() string { return "(" + r.condition() + " ? " + r.text() + " : " + r.text() + ")" },
			func() string { return r.list() + "[" + r.number() + "]" },
			func() string { return r.oneOf("request.headers", "descriptor") + "[" + r.text() + "]" },
			func() string { return `{"a": ` + r.text() + `, ` + r.text() + `: "b"}[` + r.text() + `]` },
			func() string {
				return "string(" + r.oneOf(r.number(), "bytes("+r.text()+")", "timestamp("+r.text()+")") + ")"
			},
			func() string { return leaf },
		}
		return forms[r.IntN(len(forms))]()
	})
}

func (r *grammar) number() string {
	leaf := r.oneOf("0", "1", "7", "5000")
	return r.deeper(leaf, func() string {
		switch r.IntN(9) {
		case 0:
			return r.text() + r.oneOf(".indexOf(", ".lastIndexOf(") + r.text() + ")"
		case 1:
			return "size(" + r.text() + ")"
		case 2:
			return r.list() + ".size()"
		case 3:
			return "int(" + r.text() + ")"
		case 4:
			return "(" + r.number() + r.oneOf(" + ", " - ", " * ", " / ", " % ") + r.number() + ")"
		case 5:
			return r.oneOf("size(descriptor)", "size(request.headers)")
		case 6:
			return "int(double(" + r.text() + "))"
		case 7:
			return "duration(" + r.text() + ").getSeconds()"
		default:
			return leaf
		}
	})
}

func (r *grammar) list() string {
	return r.deeper(`["a", "b"]`, func() string {
		switch r.IntN(9) {
		case 0, 1:
			return r.text() + ".split(" + r.oneOf(`"/"`, `""`, `"a"`, `"aa"`, r.text()) + r.oneOf("", ", 3", ", 512") + ")"
		case 2:
			return "[" + r.text() + ", " + r.text() + "]"
		case 3:
			return "(" + r.list() + " + " + r.list() + ")"
		case 4:
			return r.collection() + r.within(".map(", r.text)
		case 5:
			return r.collection() + r.within(".filter(", r.condition)
		case 6:
			return "(" + r.condition() + " ? " + r.list() + " : " + r.list() + ")"
		default:
			return `["a", "b", "c"]`
		}
	})
}

func (r *grammar) collection() string {
	if r.IntN(3) == 0 {
		return r.oneOf("request.headers", "descriptor")
	}
	return r.list()
}

// within returns a macro with a body.
func (r *grammar) within(macro string, body func() string) string {
	variable := fmt.Sprint("v", r.loops)
	r.loops++
	defer func() { r.loops-- }()
	return macro + variable + ", " + body() + ")"
}

func (r *grammar) condition() string {
	leaf := r.oneOf("true", "false", "request.path == principal")
	return r.deeper(leaf, func() string {
		switch r.IntN(12) {
		case 0, 1:
			return r.text() + r.oneOf(" == ", " != ", " < ", " >= ") + r.text()
		case 2:
			return r.text() + r.oneOf(".contains(", ".startsWith(", ".endsWith(") + r.text() + ")"
		case 3:
			return r.text() + r.oneOf(`.matches("(?i)(bot|crawler|spider)")`, `.matches("^/v[0-9]+/.*$")`, `.matches("\\ba\\b")`)
		case 4:
			return "(" + r.condition() + r.oneOf(" && ", " || ") + r.condition() + ")"
		case 5:
			return "!" + r.condition()
		case 6:
			return "(" + r.text() + " in " + r.collection() + ")"
		case 7:
			return r.list() + " == " + r.list()
		case 8, 9, 10:
			return r.collection() + r.within(r.oneOf(".exists(", ".all(", ".exists_one("), r.condition)
		default:
			return r.number() + r.oneOf(" == ", " > ") + r.number()
		}
	})
}

// No random expression takes longer than its price, relative to the reference.
func TestPricesOfRandomExpressionsHold(t *testing.T) {
	requests := expressiontest.MostExpensiveRequests()
	accepted := 0
	for seed := range uint64(2000) {
		r := &grammar{Rand: rand.New(rand.NewPCG(seed, 27)), depth: 5}
		text := r.condition()
		c, err := expression.Compile[bool](text)
		if err != nil {
			continue
		}
		accepted++
		some := r.IntN(len(requests))
		expectPriceHolds(t, text, c, append(requests[some:some+1:some+1], requests[0], requests[5]))
	}
	if accepted < 500 {
		t.Errorf("only %d expressions are accepted", accepted)
	}
}
