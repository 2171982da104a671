// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// withoutQuery is the condition that the request has no query, which is part of the path that Envoy compares.
const withoutQuery = "size(request.query) == 0"

// pathCondition returns the condition on the path, nil if every path fits it.
func pathCondition(p *valueSelector) (*condition, error) {
	value := *p.Value
	switch p.Type {
	case "Exact":
		if before, _, hasQuery := strings.Cut(value, "?"); hasQuery {
			return nil, fmt.Errorf("%q has a query: select by path %q and queryParams", value, before)
		}
		return inverted("(request.path == "+strconv.Quote(value)+" && "+withoutQuery+")", p.Invert), nil
	case "RegularExpression":
		text, err := patternCondition(value)
		if err != nil {
			return nil, err
		}
		return inverted(text, p.Invert), nil
	}
	prefix := strings.TrimSuffix(value, "/")
	if prefix == "" && !p.Invert {
		return nil, nil //nolint:nilnil // no condition
	}
	if prefix == "" {
		return &condition{cel: "false"}, nil
	}
	quoted := strconv.Quote(prefix)
	text := "(request.path == " + quoted + " || request.path.startsWith(" + strconv.Quote(prefix+"/") + ") || request.path.startsWith(" + strconv.Quote(prefix+";") + "))"
	if p.Invert {
		return inverted(text, true), nil
	}
	return &condition{text, func(m *v1alpha1.Match) { m.Paths = []string{prefix, prefix + "/*", prefix + ";*"} }}, nil
}

// patternCondition returns the condition on the path of requests for which Envoy finds the pattern in path and query. Policies
// see the path without its query, so the pattern must not look into that: it accepts no query, or any at its end.
func patternCondition(pattern string) (string, error) {
	text := matching("request.path", pattern)
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", fmt.Errorf("%q is not a regular expression", pattern)
	}
	parts := []*syntax.Regexp{parsed}
	if parsed.Op == syntax.OpConcat {
		parts = parsed.Sub
	}
	for n := len(parts); n > 0 && (parts[n-1].Op == syntax.OpEndText || parts[n-1].Op == syntax.OpEndLine); n = len(parts) {
		parts = parts[:n-1]
	}
	acceptsAny := len(parts) > 0 && isAnything(parts[len(parts)-1])
	if acceptsAny {
		parts = parts[:len(parts)-1]
	}
	if slices.ContainsFunc(parts, seesQuery) {
		return "", fmt.Errorf("%q may look into the query, which policies see apart from the path: let it end with .*, or accept no ?", pattern)
	}
	if !acceptsAny {
		text = "(" + text + " && " + withoutQuery + ")"
	}
	return text, nil
}

// isAnything reports whether every text fits the pattern.
func isAnything(p *syntax.Regexp) bool {
	return p.Op == syntax.OpStar && (p.Sub[0].Op == syntax.OpAnyChar || p.Sub[0].Op == syntax.OpAnyCharNotNL)
}

// seesQuery reports whether a part of a text that fits the pattern may be in the query, or whether the pattern depends on what
// follows the path.
func seesQuery(p *syntax.Regexp) bool {
	switch p.Op { //nolint:exhaustive // the others look at nothing, or at their parts
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpEndText, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	case syntax.OpLiteral:
		return strings.ContainsRune(string(p.Rune), '?')
	case syntax.OpCharClass:
		for i := 0; i+1 < len(p.Rune); i += 2 {
			if p.Rune[i] <= '?' && '?' <= p.Rune[i+1] {
				return true
			}
		}
	}
	return slices.ContainsFunc(p.Sub, seesQuery)
}
