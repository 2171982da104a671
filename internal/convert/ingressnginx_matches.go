// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// matches returns the requests that nginx answers by a location of the Ingress.
func (c *nginxConverter) matches(i *nginxIngress) (matches []v1alpha1.Match) {
	for _, s := range c.servers {
		paths := s.prefixMatches(i)
		if s.isRegex {
			paths = c.regexMatches(s, i)
		}
		if len(paths) == 0 {
			continue
		}
		for _, hosts := range c.hostMatches(s, i) {
			for _, p := range paths {
				conditions := slices.DeleteFunc([]string{hosts.When, p.When}, func(text string) bool { return text == "" })
				matches = addMatch(matches, v1alpha1.Match{Hosts: hosts.Hosts, Paths: p.Paths, When: allOf(conditions)})
			}
		}
	}
	return splitMatches(matches)
}

// addMatch adds the match, or only its hosts if another match has the same paths and the same condition.
func addMatch(matches []v1alpha1.Match, m v1alpha1.Match) []v1alpha1.Match {
	for n := range matches {
		other := &matches[n]
		if len(m.Hosts) > 0 && len(other.Hosts) > 0 && other.When == m.When && slices.Equal(other.Paths, m.Paths) {
			other.Hosts = append(slices.Clone(other.Hosts), m.Hosts...)
			return matches
		}
	}
	return append(matches, m)
}

// splitMatches splits matches with more hosts or paths than one may have.
func splitMatches(matches []v1alpha1.Match) (split []v1alpha1.Match) {
	for _, m := range matches {
		for _, hosts := range chunksOf(m.Hosts) {
			for _, paths := range chunksOf(m.Paths) {
				split = append(split, v1alpha1.Match{Hosts: hosts, Paths: paths, When: m.When})
			}
		}
	}
	return split
}

// chunksOf returns the texts by as many as a match may have.
func chunksOf(texts []string) [][]string {
	if len(texts) == 0 {
		return [][]string{nil}
	}
	return slices.Collect(slices.Chunk(texts, 32))
}

// prefixMatches returns the paths of the Ingress, without the longer ones of others.
func (s *nginxServer) prefixMatches(i *nginxIngress) (matches []v1alpha1.Match) {
	for _, l := range s.locations {
		escaped, canMatch := escapedPath(l.path)
		if l.owner != i || s.isImplied(l) || !canMatch {
			continue
		}
		m := v1alpha1.Match{When: allOf(s.exclusions(l))}
		switch pattern := escaped + map[bool]string{false: "*"}[l.isExact]; {
		case !strings.Contains(escaped, "*") && len(pattern) <= plan.MaxText:
			m.Paths = []string{pattern}
		case l.isExact:
			m.When = "request.path == " + strconv.Quote(escaped)
		default:
			m.When = allOf(append([]string{"request.path.startsWith(" + strconv.Quote(escaped) + ")"}, s.exclusions(l)...))
		}
		matches = addPath(matches, m)
	}
	return matches
}

// addPath adds the match, or only its path if another match has paths and the same condition.
func addPath(matches []v1alpha1.Match, m v1alpha1.Match) []v1alpha1.Match {
	for n := range matches {
		if other := &matches[n]; len(other.Paths) > 0 && len(m.Paths) > 0 && other.When == m.When {
			other.Paths = append(m.Paths, other.Paths...) // the shorter first
			return matches
		}
	}
	return append(matches, m)
}

// escapedPath returns the path as policies compare it, and whether a request can have it: nginx removes empty and dot segments.
func escapedPath(path string) (escaped string, canMatch bool) {
	escaped = plan.NormalizePath((&url.URL{Path: path}).EscapedPath())
	return escaped, strings.Count(escaped, "/") == strings.Count(path, "/")
}

// isBelow reports whether the prefix of the other location has all paths of this one.
func (l *nginxLocation) isBelow(other *nginxLocation) bool {
	return !other.isExact && strings.HasPrefix(l.path, other.path) && (l.isExact || len(l.path) > len(other.path))
}

// isImplied reports whether the match of a shorter path of the same Ingress has the requests of the location.
func (s *nginxServer) isImplied(l *nginxLocation) bool {
	return slices.ContainsFunc(s.locations, func(shorter *nginxLocation) bool {
		return shorter.owner == l.owner && l.isBelow(shorter) && !slices.ContainsFunc(s.locations, func(between *nginxLocation) bool {
			return between.owner != l.owner && l.isBelow(between) && between.isBelow(shorter)
		})
	})
}

// exclusions returns the conditions that the path is in no longer location of another Ingress.
func (s *nginxServer) exclusions(l *nginxLocation) (conditions []string) {
	var exact, prefixes []string
	for _, other := range s.locations {
		isCovered := slices.ContainsFunc(s.locations, func(o *nginxLocation) bool {
			return o.owner != l.owner && o.isBelow(l) && other.isBelow(o)
		})
		path, canMatch := escapedPath(other.path)
		switch {
		case other.owner == l.owner || !other.isBelow(l) || isCovered || !canMatch:
		case other.isExact:
			exact = append(exact, path)
		default:
			prefixes = append(prefixes, "!request.path.startsWith("+strconv.Quote(path)+")")
		}
	}
	slices.Sort(prefixes)
	return append(noneOf("request.path", exact), prefixes...)
}
