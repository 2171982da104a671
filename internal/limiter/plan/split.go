// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
)

// fact is something of a request that matches can be told apart by.
type fact int

const (
	factHost fact = iota
	factPath
	factDescriptor
	factDomain
	factMethod
)

// grouping is how matches fall into groups by one fact.
type grouping struct {
	by      fact
	groups  map[Entry][]*filed
	rest    []*filed // that ask nothing of the fact
	lengths []int    // of the prefixes of paths, each once
	largest int      // how many matches are left to look at, at worst
	filings int      // how many matches the groups have together
}

// group files each match under what it asks of the fact. Only descriptors have
// keys; the others are filed by value.
func (by fact) group(matches []*filed) *grouping {
	g := &grouping{by: by, groups: map[Entry][]*filed{}}
	var common map[Entry]int
	if by == factDescriptor {
		common = count(matches)
	}
	for _, f := range matches {
		switch by {
		case factHost:
			g.file(f, f.match.Hosts, func(host string) string { return strings.TrimPrefix(host, "*") })
		case factPath:
			g.file(f, f.match.Paths, g.pathValue)
		case factMethod:
			g.file(f, f.match.Methods, func(method string) string { return method })
		case factDomain:
			g.add(f, Entry{Value: f.match.Domain})
		case factDescriptor:
			g.add(f, f.match.rarest(common))
		}
	}
	for _, group := range g.groups {
		g.largest = max(g.largest, len(group))
		g.filings += len(group)
	}
	g.largest += len(g.rest)
	g.filings += len(g.rest)
	return g
}

// file files the match under each of the patterns, one of which must hold.
func (g *grouping) file(f *filed, patterns []string, valueOf func(string) string) {
	if len(patterns) == 0 {
		g.rest = append(g.rest, f)
	}
	for _, pattern := range patterns {
		g.add(f, Entry{Value: valueOf(pattern)})
	}
}

// add files the match under the value, or with those that ask nothing.
func (g *grouping) add(f *filed, value Entry) {
	if value == (Entry{}) {
		g.rest = append(g.rest, f)
		return
	}
	g.groups[value] = append(g.groups[value], f)
}

// pathValue is what a path pattern is filed under: a prefix and the same exact
// path share a group.
func (g *grouping) pathValue(pattern string) string {
	prefix, open := strings.CutSuffix(pattern, "*")
	if open && !slices.Contains(g.lengths, len(prefix)) {
		g.lengths = append(g.lengths, len(prefix))
	}
	return prefix
}

// count says how many matches ask for each descriptor entry.
func count(matches []*filed) map[Entry]int {
	common := map[Entry]int{}
	for _, f := range matches {
		for _, e := range f.match.Descriptors {
			common[e]++
		}
	}
	return common
}

// rarest returns the descriptor entry that the fewest others ask for. All must
// hold, so to be filed under one is enough.
func (m *Match) rarest(common map[Entry]int) Entry {
	var rarest Entry
	for i, e := range m.Descriptors {
		if i == 0 || common[e] < common[rarest] {
			rarest = e
		}
	}
	return rarest
}

// split is a set of matches in groups by one fact.
type split struct {
	by      fact
	groups  map[Entry]*node
	rest    *node // of matches that ask nothing of the fact
	lengths []int // of the prefixes of paths, each once
}

// find appends the matches that may hold for the request.
func (n *node) find(found []*filed, a *Attributes) []*filed {
	if n == nil {
		return found
	}
	if n.split == nil {
		return append(found, n.matches...)
	}
	return n.split.find(n.split.rest.find(found, a), a)
}

func (s *split) find(found []*filed, a *Attributes) []*filed {
	switch s.by {
	case factHost:
		return s.findHost(found, a)
	case factPath:
		found = s.groups[Entry{Value: a.Path}].find(found, a)
		for _, length := range s.lengths {
			if length < len(a.Path) { // the whole path was looked up above
				found = s.groups[Entry{Value: a.Path[:length]}].find(found, a)
			}
		}
	case factDescriptor:
		for _, d := range a.Descriptors {
			found = s.findDescriptor(found, a, d)
		}
	case factDomain:
		found = s.groups[Entry{Value: a.Domain}].find(found, a)
	case factMethod:
		found = s.groups[Entry{Value: a.Method}].find(found, a)
	}
	return found
}

// findHost looks up the host itself, and all that follows each of its dots.
func (s *split) findHost(found []*filed, a *Attributes) []*filed {
	for name := a.Host; name != ""; {
		found = s.groups[Entry{Value: name}].find(found, a)
		i := strings.IndexByte(name[1:], '.')
		if i < 0 {
			break
		}
		name = name[1+i:]
	}
	return found
}

// findDescriptor looks up each entry, with its value and with any.
func (s *split) findDescriptor(found []*filed, a *Attributes, d Descriptor) []*filed {
	for _, e := range d {
		found = s.groups[e].find(found, a)
		if e.Value != "" {
			found = s.groups[Entry{Key: e.Key}].find(found, a)
		}
	}
	return found
}
