// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// nginxRegex is the path of a location as a regular expression.
type nginxRegex struct {
	path  string
	owner *nginxIngress
	// prefix begins all paths that match, in lower case. isPrefix is true if all paths that begin with it match.
	prefix   string
	isPrefix bool
	// problem is why no policy can have the expression; empty if one can.
	problem string
}

// regexOf reads the path of the location.
func regexOf(l *nginxLocation) nginxRegex {
	r := nginxRegex{path: l.path, owner: l.owner}
	parsed, err := syntax.Parse("^"+l.path, syntax.Perl|syntax.FoldCase)
	switch {
	case err != nil:
		r.problem = "is not supported by RE2"
		return r
	case strings.ContainsFunc(l.path, func(c rune) bool { return c <= ' ' || c > '~' || c == '%' }):
		r.problem = "has characters that policies compare escaped"
		return r
	}
	if parsed.Op != syntax.OpConcat || parsed.Sub[0].Op != syntax.OpBeginText {
		return r
	}
	parts := parsed.Sub[1:]
	for len(parts) > 1 && mayBeEmpty(parts[len(parts)-1]) {
		parts = parts[:len(parts)-1]
	}
	if parts[0].Op == syntax.OpLiteral {
		r.prefix, r.isPrefix = strings.ToLower(string(parts[0].Rune)), len(parts) == 1
	}
	return r
}

// mayBeEmpty reports whether the last part of an expression matches any rest, because it may match nothing of it.
func mayBeEmpty(part *syntax.Regexp) bool {
	if part.Op == syntax.OpCapture {
		part = part.Sub[0]
	}
	return part.Op == syntax.OpStar || part.Op == syntax.OpQuest
}

// covers reports whether the expression matches all paths that the other one matches.
func (r *nginxRegex) covers(other *nginxRegex) bool {
	return r.isPrefix && strings.HasPrefix(other.prefix, r.prefix) || r.matchesAll()
}

func (r *nginxRegex) matchesAll() bool { return r.isPrefix && r.prefix == "/" }

// overlaps reports whether a path may match both expressions.
func (r *nginxRegex) overlaps(other *nginxRegex) bool {
	return strings.HasPrefix(r.prefix, other.prefix) || strings.HasPrefix(other.prefix, r.prefix)
}

// regexMatches returns the conditions of paths that match a regular expression of the Ingress before one of another Ingress.
func (c *nginxConverter) regexMatches(s *nginxServer, i *nginxIngress) (matches []v1alpha1.Match) {
	all := make([]nginxRegex, len(s.locations))
	for n, l := range s.locations {
		all[n] = regexOf(l)
	}
	type group struct{ own, before []nginxRegex }
	var groups []group
	for n := range all {
		if all[n].owner != i || isImpliedAt(all, n) {
			continue
		}
		before := precedingOf(all, n)
		tried := append(slices.Clone(before), all[n])
		if bad := slices.IndexFunc(tried, func(r nginxRegex) bool { return r.problem != "" }); bad >= 0 {
			c.lose(i.at, "path %s of %s: the expression %s %s", all[n].path, s.label(), tried[bad].path, tried[bad].problem)
			i.isReported = true
			continue
		}
		index := slices.IndexFunc(groups, func(g group) bool { return slices.Equal(g.before, before) })
		if index < 0 {
			index, groups = len(groups), append(groups, group{before: before})
		}
		groups[index].own = append(groups[index].own, all[n])
	}
	for _, g := range groups {
		var m v1alpha1.Match
		var conditions []string
		if slices.ContainsFunc(g.own, func(r nginxRegex) bool { return r.matchesAll() }) {
			m.Paths = []string{"/*"}
		} else {
			conditions = append(conditions, conditionOf(g.own))
		}
		if len(g.before) > 0 {
			conditions = append(conditions, "!"+conditionOf(g.before))
		}
		m.When = allOf(conditions)
		matches = append(matches, m)
	}
	return matches
}

// isImpliedAt reports whether the match of another expression of the same Ingress has all paths of the expression: no other
// Ingress has an expression between them that such a path may match.
func isImpliedAt(all []nginxRegex, n int) bool {
	for k := range all {
		isSame := all[k].isPrefix && all[n].isPrefix && all[k].prefix == all[n].prefix
		if k == n || all[k].owner != all[n].owner || !all[k].covers(&all[n]) || isSame && k < n {
			continue
		}
		isSeparated := k > n && slices.ContainsFunc(all[n:k], func(r nginxRegex) bool { return r.owner != all[n].owner && r.overlaps(&all[n]) })
		if !isSeparated {
			return true
		}
	}
	return false
}

// precedingOf returns the expressions of other Ingresses that nginx tries before the one at n, if a path may match both.
func precedingOf(all []nginxRegex, n int) (preceding []nginxRegex) {
	for k := range all[:n] {
		isCovered := slices.ContainsFunc(preceding, func(r nginxRegex) bool { return r.covers(&all[k]) })
		if all[k].owner != all[n].owner && all[k].overlaps(&all[n]) && !isCovered {
			preceding = append(slices.DeleteFunc(preceding, func(r nginxRegex) bool { return all[k].covers(&r) }), all[k])
		}
	}
	return preceding
}

// conditionOf returns the condition that a path matches one of the expressions. The comparison with one prefix is cheaper.
func conditionOf(regexes []nginxRegex) string {
	if len(regexes) == 1 && regexes[0].isPrefix {
		return "request.path.lowerAscii().startsWith(" + strconv.Quote(regexes[0].prefix) + ")"
	}
	alternatives := make([]string, len(regexes))
	for n, r := range regexes {
		alternatives[n] = "^" + r.path
		if strings.Contains(r.path, "(?") && len(regexes) > 1 {
			alternatives[n] = "(?:^" + r.path + ")" // its flags end with it
		}
	}
	return "request.path.matches(" + strconv.Quote("(?i)"+strings.Join(alternatives, "|")) + ")"
}
