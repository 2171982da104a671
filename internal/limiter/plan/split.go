// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"strings"
)

// fact is a property of a request by which the index divides matches.
type fact int

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

// grouping is a division of matches into groups by one fact.
type grouping struct {
	by      fact
	groups  map[Entry][]*candidate
	rest    []*candidate // without a condition on the fact
	names   []string     // of headers, each once
	lengths []int        // of the prefixes of paths, each once
	longest int          // the length of the longest host
	largest int          // the largest group plus the rest: the estimated candidates of a request
	copies  int          // the number of matches in all groups
}

// group adds each match to the groups of the values that it requires of the fact. Only
// descriptor entries, headers and query parameters have keys; the other facts have only values.
func (f fact) group(matches []*candidate) *grouping {
	g := &grouping{by: f, groups: map[Entry][]*candidate{}}
	counts := f.countEntries(matches)
	for _, c := range matches {
		switch f {
		case factTarget:
			g.addAll(c, TargetTexts(c.match.Targets), func(target string) string { return target })
		case factHost:
			g.addAll(c, c.match.Hosts, g.hostValue)
		case factPath:
			g.addAll(c, c.match.Paths, g.pathValue)
		case factMethod:
			g.addAll(c, c.match.Methods, func(method string) string { return method })
		case factDomain:
			g.add(c, Entry{Value: c.match.Domain})
		case factDescriptor, factHeader, factQueryParameter:
			g.add(c, rarest(f.entriesOf(c.match), counts))
		}
	}
	if f == factHeader {
		g.names = namesOf(g.groups)
	}
	for _, group := range g.groups {
		g.largest = max(g.largest, len(group))
		g.copies += len(group)
	}
	g.largest += len(g.rest)
	g.copies += len(g.rest)
	return g
}

// addAll adds the match to the group of each pattern, one of which must hold.
func (g *grouping) addAll(c *candidate, patterns []string, valueOf func(string) string) {
	if len(patterns) == 0 {
		g.rest = append(g.rest, c)
	}
	for _, pattern := range patterns {
		g.add(c, Entry{Value: valueOf(pattern)})
	}
}

// add adds the match to the group of the value, or to the rest if the value is empty.
func (g *grouping) add(c *candidate, value Entry) {
	if value == (Entry{}) {
		g.rest = append(g.rest, c)
		return
	}
	g.groups[value] = append(g.groups[value], c)
}

// hostValue returns the host, or the suffix of a wildcard with its dot.
func (g *grouping) hostValue(pattern string) string {
	suffix := strings.TrimPrefix(pattern, "*")
	g.longest = max(g.longest, len(suffix))
	return suffix
}

// pathValue returns the group of a path pattern: a prefix and the same exact path share one.
func (g *grouping) pathValue(pattern string) string {
	prefix, open := strings.CutSuffix(pattern, "*")
	if open && !slices.Contains(g.lengths, len(prefix)) {
		g.lengths = append(g.lengths, len(prefix))
	}
	return prefix
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

// namesOf returns the keys of the entries, each once.
func namesOf(groups map[Entry][]*candidate) []string {
	names := map[string]bool{}
	for e := range groups {
		names[e.Key] = true
	}
	return slices.Collect(maps.Keys(names))
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
func rarest(entries []Entry, counts map[Entry]int) Entry {
	var rarest Entry
	for i, e := range entries {
		if i == 0 || counts[e] < counts[rarest] {
			rarest = e
		}
	}
	return rarest
}

// split is a set of matches, divided into groups by one fact.
type split struct {
	by      fact
	groups  map[Entry]*node
	rest    *node    // matches without a condition on the fact
	names   []string // of headers, each once
	lengths []int    // of the prefixes of paths, each once
	longest int      // the length of the longest host
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
		found = s.groups[Entry{Value: a.Path}].find(found, a)
		for _, length := range s.lengths {
			if length < len(a.Path) { // the whole path was looked up above
				found = s.groups[Entry{Value: a.Path[:length]}].find(found, a)
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
		found = s.groups[Entry{Value: a.Domain}].find(found, a)
	case factMethod:
		found = s.groups[Entry{Value: a.Method}].find(found, a)
	}
	return found
}

// findTargets looks up each target, and the whole of one that is a part.
func (s *split) findTargets(found []*candidate, a *Attributes) []*candidate {
	for _, t := range a.Targets {
		found = s.groups[Entry{Value: string(t)}].find(found, a)
		if whole := t.Whole(); whole != t {
			found = s.groups[Entry{Value: string(whole)}].find(found, a)
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
		found = s.groups[Entry{Value: name}].find(found, a)
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
	if len(s.names) > len(a.Headers) {
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
	found = s.groups[Entry{Key: name}].find(found, a)
	if value == "" {
		return found
	}
	if !strings.Contains(value, ",") {
		return s.groups[Entry{Key: name, Value: value}].find(found, a)
	}
	elements := a.elementsOf(name, value)
	if elements == nil { // unreadable: any of them may be among the elements
		return s.findAll(found, a, func(e Entry) bool { return e.Key == name && e.Value != "" })
	}
	for element := range elements {
		if element != "" {
			found = s.groups[Entry{Key: name, Value: element}].find(found, a)
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
		found = s.groups[e].find(found, a)
	}
	return found
}

// findAll looks in all groups whose entry is selected, for values that are unreadable. It ends when more policies match
// than have room: then the request is denied, see Found.Uncertain, and further ones would only take time.
func (s *split) findAll(found []*candidate, a *Attributes, selected func(Entry) bool) []*candidate {
	denying := map[*Plan]bool{}
	for e, n := range s.groups {
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
		if n := s.groups[e]; n != nil && seen.add(n) {
			found = n.find(found, a)
		}
		if e.Value == "" {
			continue
		}
		if n := s.groups[Entry{Key: e.Key}]; n != nil && seen.add(n) {
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
