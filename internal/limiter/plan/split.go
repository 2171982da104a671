// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
)

// fact is something of a request that match entries can be told apart by.
type fact int

const (
	factHost fact = iota
	factPath
	factDescriptor
	factDomain
	factMethod
)

// grouping is how match entries fall into groups by one fact.
type grouping struct {
	by      fact
	groups  map[Entry][]*filed
	rest    []*filed // that ask nothing of the fact
	lengths []int    // of the prefixes of paths, each once
	largest int      // how many entries are left to look at, at worst
	filings int      // how many entries the groups have together
}

// group files each entry under what it asks of the fact. Only descriptors have
// keys; the others are filed by value.
func (by fact) group(entries []*filed) *grouping {
	g := &grouping{by: by, groups: map[Entry][]*filed{}}
	var common map[Entry]int
	if by == factDescriptor {
		common = count(entries)
	}
	for _, f := range entries {
		switch by {
		case factHost:
			g.file(f, f.match.Hosts, func(host string) string { return strings.TrimPrefix(host, "*") })
		case factPath:
			g.file(f, f.match.Paths, g.pathValue)
		case factMethod:
			g.file(f, f.match.Methods, func(method string) string { return method })
		case factDomain:
			g.add(f, Entry{Value: f.match.Domain}, f.match.Domain != "")
		case factDescriptor:
			rarest := f.match.rarest(common)
			g.add(f, rarest, rarest.Key != "")
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

// file adds the entry under each of the patterns, one of which must hold.
func (g *grouping) file(f *filed, patterns []string, valueOf func(string) string) {
	for _, pattern := range patterns {
		g.add(f, Entry{Value: valueOf(pattern)}, true)
	}
	g.add(f, Entry{}, len(patterns) > 0)
}

// add files the entry under the value, or with those that ask nothing.
func (g *grouping) add(f *filed, value Entry, asks bool) {
	switch {
	case !asks:
		g.rest = append(g.rest, f)
	case value != Entry{}:
		g.groups[value] = append(g.groups[value], f)
	}
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

// count says how many match entries ask for each descriptor entry.
func count(entries []*filed) map[Entry]int {
	common := map[Entry]int{}
	for _, f := range entries {
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

// split is a set of match entries in groups by one fact.
type split struct {
	by      fact
	groups  map[Entry]*node
	rest    *node // of entries that ask nothing of the fact
	lengths []int // of the prefixes of paths, each once
}

// find appends the entries that may hold for the request.
func (n *node) find(found []*filed, a *Attributes) []*filed {
	if n == nil {
		return found
	}
	if n.split == nil {
		return append(found, n.entries...)
	}
	return n.split.find(n.split.rest.find(found, a), a)
}

func (s *split) find(found []*filed, a *Attributes) []*filed {
	value := func(v string) { found = s.groups[Entry{Value: v}].find(found, a) }
	switch s.by {
	case factHost:
		value(a.Host)
		for rest := a.Host; rest != ""; {
			i := strings.IndexByte(rest[1:], '.')
			if i < 0 {
				break
			}
			rest = rest[1+i:]
			value(rest)
		}
	case factPath:
		value(a.Path)
		for _, length := range s.lengths {
			if length < len(a.Path) { // the whole path was looked up above
				value(a.Path[:length])
			}
		}
	case factDescriptor:
		for _, d := range a.Descriptors {
			for _, e := range d {
				found = s.groups[e].find(found, a)
				if e.Value != "" {
					found = s.groups[Entry{Key: e.Key}].find(found, a)
				}
			}
		}
	case factDomain:
		value(a.Domain)
	case factMethod:
		value(a.Method)
	}
	return found
}
