// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/persistent"
)

// fact is a property of a request by which the index divides matches.
type fact uint8

const (
	factTarget fact = iota
	factHost
	factPath
	factDescriptor
	factHeader
	factQueryParameter
	factDomain
	factMethod
)

// numberOfFacts is the number of facts.
const numberOfFacts = int(factMethod) + 1

// facts is a set of facts, one bit each.
type facts uint8

func (s facts) has(f fact) bool { return s&(1<<f) != 0 }

func (s facts) with(f fact) facts { return s | 1<<f }

// grouping is a division of matches into groups by one fact.
type grouping struct {
	by      fact
	groups  map[Entry][]*candidate
	rest    []*candidate // without a condition on the fact, or with too many copies
	largest int          // the largest group plus the rest: the estimated candidates of a request
}

// group adds each match to the groups of the values that it requires of the fact.
func (f fact) group(matches []*candidate, used facts) *grouping {
	g := &grouping{by: f, groups: map[Entry][]*candidate{}}
	counts := f.countEntries(matches)
	for _, c := range matches {
		values := f.valuesOf(c.match, used, func(e Entry) int { return counts[e] })
		if len(values) == 0 {
			g.rest = append(g.rest, c)
		}
		for _, value := range values {
			g.groups[value] = append(g.groups[value], c)
		}
	}
	for _, group := range g.groups {
		g.largest = max(g.largest, len(group))
	}
	g.largest += len(g.rest)
	return g
}

// valuesOf returns the values of the fact in whose groups the match is; in the rest without any. Only descriptor entries,
// headers and query parameters have keys; the other facts have only values. Of entries, which must all hold, it takes the
// one that the fewest matches have.
func (f fact) valuesOf(m *Match, used facts, count func(Entry) int) []Entry {
	switch f {
	case factDomain:
		if m.Domain == "" {
			return nil
		}
		return []Entry{{Value: m.Domain}}
	case factDescriptor, factHeader, factQueryParameter:
		return rarest(f.entriesOf(m), count)
	default:
		values := f.patternValues(m)
		if copiesIn(m, used)*len(values) > maxCopies {
			return nil
		}
		return values
	}
}

// copiesIn returns an upper bound of the copies of the match in a tree that is divided by these facts.
func copiesIn(m *Match, used facts) int {
	copies := 1
	for i := range numberOfFacts {
		f := fact(i)
		if used.has(f) {
			copies *= max(1, len(f.patternsOf(m)))
		}
	}
	return copies
}

// patternsOf returns the patterns of the fact, one of which must hold.
func (f fact) patternsOf(m *Match) []string {
	switch f {
	case factTarget:
		return TargetTexts(m.Targets)
	case factHost:
		return m.Hosts
	case factPath:
		return m.Paths
	case factMethod:
		return m.Methods
	default:
		return nil
	}
}

// patternValues returns the values of the groups of the patterns, each once: of a wildcard its suffix with the dot, of a
// path its prefix, which the same exact path shares.
func (f fact) patternValues(m *Match) []Entry {
	patterns := f.patternsOf(m)
	values := make([]Entry, 0, len(patterns))
	for _, text := range patterns {
		if f == factHost {
			text = strings.TrimPrefix(text, "*")
		}
		if f == factPath {
			text = strings.TrimSuffix(text, "*")
		}
		if value := (Entry{Value: text}); !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// entriesOf returns the entries of the fact that must all hold. An element of a list in the value of a header, in
// place of the list, is enough to find the match.
func (f fact) entriesOf(m *Match) []Entry {
	switch f {
	case factDescriptor:
		return m.Descriptors
	case factHeader:
		return firstElements(m.Headers)
	case factQueryParameter:
		return inLowerCase(m.QueryParameters)
	default:
		return nil
	}
}

func firstElements(headers []Entry) []Entry {
	entries := slices.Clone(headers)
	for i, e := range entries {
		entries[i].Value = ""
		for element := range strings.SplitSeq(e.Value, ",") {
			if element = TrimValue(element); element != "" {
				entries[i].Value = element
				break
			}
		}
	}
	return entries
}

func inLowerCase(parameters []Entry) []Entry {
	entries := slices.Clone(parameters)
	for i, e := range entries {
		entries[i].Key = lowerName(e.Key)
	}
	return entries
}

// countEntries returns the number of matches with each entry of the fact.
func (f fact) countEntries(matches []*candidate) map[Entry]int {
	counts := map[Entry]int{}
	for _, c := range matches {
		for _, e := range f.entriesOf(c.match) {
			counts[e]++
		}
	}
	return counts
}

// rarest returns the entry that the fewest matches have. All entries must hold,
// so the group of one of them is enough.
func rarest(entries []Entry, count func(Entry) int) []Entry {
	if len(entries) == 0 {
		return nil
	}
	return []Entry{slices.MinFunc(entries, func(a, b Entry) int { return count(a) - count(b) })}
}

// split is a set of matches, divided into groups by one fact.
type split struct {
	by      fact
	groups  persistent.Map[Entry, *node]
	rest    *node    // matches without a condition on the fact, or with too many copies
	names   []string // of headers, each once; up to maxNames
	lengths []int    // of the prefixes of paths, each once
	longest int      // the length of the longest host
}

// maxNames is the number of names of headers from which on the index looks up the names that a request has.
const maxNames = 32

func newSplit(g *grouping, used facts) *split {
	s := &split{by: g.by, rest: newNode(g.rest, used.with(g.by))}
	for value, group := range g.groups {
		s.groups = s.groups.With(value, newNode(group, used.with(g.by)))
		s.addLookup(value)
		for _, c := range group {
			s.addPrefixes(c.match)
		}
	}
	return s
}

// addLookup records what a request needs to look up to find the group of the value.
func (s *split) addLookup(value Entry) {
	if s.by == factHost {
		s.longest = max(s.longest, len(value.Value))
	}
	if s.by == factHeader && len(s.names) <= maxNames && !slices.Contains(s.names, value.Key) {
		s.names = append(slices.Clip(s.names), value.Key)
	}
}

// addPrefixes records the lengths of the prefixes of paths in the match.
func (s *split) addPrefixes(m *Match) {
	if s.by != factPath {
		return
	}
	for _, pattern := range m.Paths {
		prefix, open := strings.CutSuffix(pattern, "*")
		if open && !slices.Contains(s.lengths, len(prefix)) {
			s.lengths = append(slices.Clip(s.lengths), len(prefix))
		}
	}
}

// with returns the split with one more match.
func (s *split) with(c *candidate, used facts) *split {
	next := *s
	values := s.by.valuesOf(c.match, used, func(e Entry) int { return s.groups.Get(e).len() })
	if len(values) == 0 {
		next.rest = s.rest.with(c, used.with(s.by))
		return &next
	}
	for _, value := range values {
		next.groups = next.groups.With(value, next.groups.Get(value).with(c, used.with(s.by)))
		next.addLookup(value)
	}
	next.addPrefixes(c.match)
	return &next
}

// without returns the split without the match, or s itself if it does not have the match. What addLookup and addPrefixes have
// recorded stays, which costs a request some lookups.
func (s *split) without(c *candidate, used facts) *split {
	next := *s
	values := s.by.entriesOf(c.match) // the group of one of them has the match
	if len(values) == 0 {
		values = s.by.valuesOf(c.match, used, nil)
	}
	if len(values) == 0 {
		next.rest = s.rest.without(c, used.with(s.by))
	}
	for _, value := range values {
		before := next.groups.Get(value)
		switch after := before.without(c, used.with(s.by)); after {
		case before:
		case nil:
			next.groups = next.groups.Without(value)
		default:
			next.groups = next.groups.With(value, after)
		}
	}
	if next.rest == s.rest && next.groups == s.groups {
		return s
	}
	return &next
}

// len returns the number of matches.
func (n *node) len() int {
	if n == nil {
		return 0
	}
	return int(n.size)
}

// find appends the matches that may hold for the request.
func (n *node) find(found []*candidate, a *Attributes) []*candidate {
	if n == nil {
		return found
	}
	if n.split == nil {
		return append(found, n.matches...)
	}
	return n.split.find(n.split.rest.find(found, a), a)
}

func (s *split) find(found []*candidate, a *Attributes) []*candidate {
	switch s.by {
	case factTarget:
		return s.findTargets(found, a)
	case factHost:
		return s.findHost(found, a)
	case factPath:
		found = s.groups.Get(Entry{Value: a.Path}).find(found, a)
		for _, length := range s.lengths {
			if length < len(a.Path) { // the whole path was looked up above
				found = s.groups.Get(Entry{Value: a.Path[:length]}).find(found, a)
			}
		}
	case factDescriptor:
		var seen nodes
		for _, d := range a.Descriptors {
			found = s.findDescriptor(found, a, d, &seen)
		}
	case factHeader:
		return s.findHeaders(found, a)
	case factQueryParameter:
		return s.findQueryParameters(found, a)
	case factDomain:
		found = s.groups.Get(Entry{Value: a.Domain}).find(found, a)
	case factMethod:
		found = s.groups.Get(Entry{Value: a.Method}).find(found, a)
	}
	return found
}

// findTargets looks up each target, and the whole of one that is a part.
func (s *split) findTargets(found []*candidate, a *Attributes) []*candidate {
	for _, t := range a.Targets {
		found = s.groups.Get(Entry{Value: string(t)}).find(found, a)
		if whole := t.Whole(); whole != t {
			found = s.groups.Get(Entry{Value: string(whole)}).find(found, a)
		}
	}
	return found
}

// findHost looks up the host itself and every suffix that starts with a dot.
func (s *split) findHost(found []*candidate, a *Attributes) []*candidate {
	name := a.Host
	if extra := len(name) - s.longest; extra > 0 { // look up no suffix that is longer
		dot := strings.IndexByte(name[extra:], '.')
		if dot < 0 {
			return found
		}
		name = name[extra+dot:]
	}
	for name != "" {
		found = s.groups.Get(Entry{Value: name}).find(found, a)
		i := strings.IndexByte(name[1:], '.')
		if i < 0 {
			break
		}
		name = name[1+i:]
	}
	return found
}

// findHeaders looks up each header that a match has, or that the request has if these are fewer.
func (s *split) findHeaders(found []*candidate, a *Attributes) []*candidate {
	if len(s.names) > min(len(a.Headers), maxNames) {
		for name := range a.Headers {
			found = s.findHeader(found, a, name)
		}
		return found
	}
	for _, name := range s.names {
		found = s.findHeader(found, a, name)
	}
	return found
}

// findHeader looks up the header: for any value, with its value, and with each element of it.
func (s *split) findHeader(found []*candidate, a *Attributes, name string) []*candidate {
	value, present := a.Headers[name]
	if !present {
		return found
	}
	found = s.groups.Get(Entry{Key: name}).find(found, a)
	if value == "" {
		return found
	}
	if !strings.Contains(value, ",") {
		return s.groups.Get(Entry{Key: name, Value: value}).find(found, a)
	}
	elements := a.elementsOf(name, value)
	if elements == nil { // unreadable: any of them may be among the elements
		return s.findAll(found, a, func(e Entry) bool { return e.Key == name && e.Value != "" })
	}
	for element := range elements {
		if element != "" {
			found = s.groups.Get(Entry{Key: name, Value: element}).find(found, a)
		}
	}
	return found
}

// findQueryParameters looks up all parameters, in all readings.
func (s *split) findQueryParameters(found []*candidate, a *Attributes) []*candidate {
	if a.Query == "" {
		return found
	}
	v := a.QueryValues()
	if v.unreadable {
		return s.findAll(found, a, func(Entry) bool { return true })
	}
	for e := range v.allEntries() {
		found = s.groups.Get(e).find(found, a)
	}
	return found
}

// findAll looks in all groups whose entry is selected, for values that are unreadable. It ends when more policies match
// than have room: then the request is denied, see Found.Uncertain, and further ones would only take time.
func (s *split) findAll(found []*candidate, a *Attributes, selected func(Entry) bool) []*candidate {
	denying := map[*Plan]bool{}
	for e, n := range s.groups.All() {
		if !selected(e) {
			continue
		}
		before := len(found)
		found = n.find(found, a)
		for _, c := range found[before:] {
			if c.needsRoom(a) {
				denying[c.plan] = true
			}
		}
		if len(denying) > MaxMatchedPolicies {
			break
		}
	}
	return found
}

// needsRoom reports whether the match holds for the request, which then certainly needs room for an enforcing policy:
// no expression, override or missing key can exempt it.
func (c *candidate) needsRoom(a *Attributes) bool {
	p := c.plan
	return p.Mode == ModeEnforce && c.match.When == "" && (len(p.Key) == 0 || p.OnMissingKey != MissingKeySkip) &&
		!slices.ContainsFunc(p.Overrides, func(o Override) bool { return o.Action == ActionAllow }) &&
		c.match.holds(a) && c.match.holdsDescriptors(a)
}

// findDescriptor looks up each entry, with its value and for any value, that no earlier descriptor has led
// to.
func (s *split) findDescriptor(found []*candidate, a *Attributes, d Descriptor, seen *nodes) []*candidate {
	for _, e := range d {
		if n := s.groups.Get(e); n != nil && seen.add(n) {
			found = n.find(found, a)
		}
		if e.Value == "" {
			continue
		}
		if n := s.groups.Get(Entry{Key: e.Key}); n != nil && seen.add(n) {
			found = n.find(found, a)
		}
	}
	return found
}

// nodes is a set of nodes, of which most requests need few.
type nodes struct {
	few  [8]*node
	many map[*node]bool
	n    int
}

// add adds the node and reports whether it is new.
func (s *nodes) add(n *node) bool {
	if slices.Contains(s.few[:min(s.n, len(s.few))], n) || s.many[n] {
		return false
	}
	if s.n < len(s.few) {
		s.few[s.n] = n
	} else {
		if s.many == nil {
			s.many = map[*node]bool{}
		}
		s.many[n] = true
	}
	s.n++
	return true
}
