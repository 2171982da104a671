// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/persistent"
)

// fact is a property of a request by which the index divides matches.
type fact uint8

// The facts, first the ones for which a Namespace needs a grant.
const (
	factTarget fact = iota
	factHost
	factDomain
	factPath
	factDescriptor
	factHeader
	factQueryParameter
	factMethod

	numberOfFacts
)

// facts is a set of facts, one bit each.
type facts uint8

func (s facts) has(f fact) bool { return s&(1<<f) != 0 }

func (s facts) with(f fact) facts { return s | 1<<f }

// bestFact returns the fact by which to divide the matches: one for which a Namespace needs a grant, else the one that
// leaves the fewest entries. It returns numberOfFacts if none leaves fewer.
func bestFact(matches []*indexEntry, used facts) fact {
	best, fewest := numberOfFacts, len(matches)
	for f := range numberOfFacts {
		if used.has(f) {
			continue
		}
		if f <= factDomain {
			if slices.ContainsFunc(matches, func(c *indexEntry) bool { return len(f.valuesOf(c.match, used, nil)) > 0 }) {
				return f
			}
			continue
		}
		counts, rest := f.count(matches, used)
		largest := 0
		for _, n := range counts {
			largest = max(largest, n)
		}
		if largest+rest < fewest {
			best, fewest = f, largest+rest
		}
		if fewest <= maxUnsplit {
			break // no other fact can be much better
		}
	}
	return best
}

// count returns the number of matches in the group of each value of the fact, and in none.
func (f fact) count(matches []*indexEntry, used facts) (counts map[plan.Entry]int, rest int) {
	entries := f.countEntries(matches, used)
	counts = make(map[plan.Entry]int, len(entries))
	for _, c := range matches {
		values := f.valuesOf(c.match, used, func(e plan.Entry) int { return entries[e] })
		if len(values) == 0 {
			rest++
		}
		for _, value := range values {
			counts[value]++
		}
	}
	return counts, rest
}

// valuesOf returns the values of the fact in whose groups the match is; in the rest without any. Only descriptor entries,
// headers and query parameters have keys; the other facts have only values. Of entries, which must all hold, it takes the
// one that the fewest matches have.
func (f fact) valuesOf(m *plan.Match, used facts, count func(plan.Entry) int) []plan.Entry {
	switch f {
	case factDomain:
		if m.Domain == "" {
			return nil
		}
		return []plan.Entry{{Value: m.Domain}}
	case factDescriptor, factHeader, factQueryParameter:
		return rarest(f.entriesOf(m, used), count)
	default:
		n, copies := f.patterns(m), copiesIn(m, used)
		if n > 1 && copies > 1 && n*copies > maxCopies {
			return nil
		}
		return f.patternValues(m)
	}
}

// copiesIn returns an upper bound of the copies of the match in a tree that is divided by these facts.
func copiesIn(m *plan.Match, used facts) int {
	copies := 1
	for f := range numberOfFacts {
		if used.has(f) {
			copies *= max(1, f.patterns(m))
		}
	}
	return copies
}

// patterns returns the number of patterns of the fact.
func (f fact) patterns(m *plan.Match) int {
	if f == factTarget {
		return len(m.Targets)
	}
	return len(f.patternsOf(m))
}

// patternsOf returns the patterns of the fact, one of which must hold.
func (f fact) patternsOf(m *plan.Match) []string {
	switch f {
	case factTarget:
		return plan.TargetTexts(m.Targets)
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
// path its prefix, which the same exact path shares. A pattern that another one covers has none, so that a request finds
// the match once.
func (f fact) patternValues(m *plan.Match) []plan.Entry {
	patterns := f.patternsOf(m)
	values := make([]plan.Entry, 0, len(patterns))
	for i, text := range patterns {
		if f.isCovered(patterns, i) {
			continue
		}
		if f == factHost {
			text = strings.TrimPrefix(text, "*")
		}
		if f == factPath {
			text = strings.TrimSuffix(text, "*")
		}
		values = append(values, plan.Entry{Value: text})
	}
	return values
}

// isCovered reports whether another pattern covers the i-th, or an earlier one equals it.
func (f fact) isCovered(patterns []string, i int) bool {
	for j, pattern := range patterns {
		switch {
		case j == i:
		case pattern == patterns[i]:
			if j < i {
				return true
			}
		case f == factTarget && plan.Target(pattern).Covers(plan.Target(patterns[i])),
			f == factHost && plan.MatchesHost(pattern, patterns[i]),
			f == factPath && plan.MatchesPath(pattern, patterns[i]):
			return true
		}
	}
	return false
}

// entriesOf returns the entries of the fact that must all hold, of a match with many copies only the first ones: each copy
// looks at them again. An element of a list in the value of a header, in place of the list, is enough to find the match.
func (f fact) entriesOf(m *plan.Match, used facts) []plan.Entry {
	most := plan.MaxEntries
	if copies := copiesIn(m, used); copies > 1 {
		most = max(1, maxCopies/copies)
	}
	first := func(entries []plan.Entry) []plan.Entry { return entries[:min(len(entries), most)] }
	switch f {
	case factDescriptor:
		entries := make([]plan.Entry, min(len(m.Descriptors), most))
		for i := range entries {
			entries[i] = m.Descriptors[i].Indexed()
		}
		return entries
	case factHeader:
		return firstElements(first(m.Headers))
	case factQueryParameter:
		return inLowerCase(first(m.QueryParameters))
	default:
		return nil
	}
}

func firstElements(headers []plan.Entry) []plan.Entry {
	entries := slices.Clone(headers)
	for i, e := range entries {
		entries[i].Value = ""
		for element := range strings.SplitSeq(e.Value, ",") {
			if element = plan.TrimValue(element); element != "" {
				entries[i].Value = element
				break
			}
		}
	}
	return entries
}

func inLowerCase(parameters []plan.Entry) []plan.Entry {
	entries := slices.Clone(parameters)
	for i, e := range entries {
		entries[i].Key = plan.LowerName(e.Key)
	}
	return entries
}

// countEntries returns the number of matches with each entry of the fact.
func (f fact) countEntries(matches []*indexEntry, used facts) map[plan.Entry]int {
	counts := map[plan.Entry]int{}
	for _, c := range matches {
		for _, e := range f.entriesOf(c.match, used) {
			counts[e]++
		}
	}
	return counts
}

// rarest returns the entry that the fewest matches have. All entries must hold,
// so the group of one of them is enough.
func rarest(entries []plan.Entry, count func(plan.Entry) int) []plan.Entry {
	if len(entries) == 0 {
		return nil
	}
	return []plan.Entry{slices.MinFunc(entries, func(a, b plan.Entry) int { return count(a) - count(b) })}
}

// split is a set of matches, divided into groups by one fact.
type split struct {
	by      fact
	groups  persistent.Map[plan.Entry, *node]
	rest    *node    // matches without a condition on the fact, or with too many copies
	names   []string // of headers, each once; up to maxNames
	lengths []int    // of the prefixes of paths or of values of descriptors, each once, in order
	longest int      // the length of the longest host
	// The only host, if all matches require the same one, and its group: to compare it costs less than to look it up.
	only      string
	onlyGroup *node
}

// maxNames is the number of names of headers from which on the index looks up the names that a request has.
const maxNames = 32

// newSplit divides the matches, which are in order.
func newSplit(by fact, matches []*indexEntry, used facts) *split {
	entries := by.countEntries(matches, used)
	groups := make(map[plan.Entry][]*indexEntry, len(entries))
	var rest []*indexEntry
	s := &split{by: by}
	for _, c := range matches {
		values := by.valuesOf(c.match, used, func(e plan.Entry) int { return entries[e] })
		if len(values) == 0 {
			rest = append(rest, c)
			continue
		}
		for _, value := range values {
			groups[value] = append(groups[value], c)
			s.addLookup(value)
		}
		s.addPrefixes(c.match)
	}
	nodes := make(map[plan.Entry]*node, len(groups))
	for value, group := range groups {
		nodes[value] = newNode(group, used.with(by))
	}
	s.groups, s.rest = persistent.Of(nodes), newNode(rest, used.with(by))
	s.setOnly()
	return s
}

func (s *split) setOnly() {
	s.only, s.onlyGroup = "", nil
	if s.by == factHost && s.rest == nil && s.groups.Len() == 1 {
		for host, group := range s.groups.All() {
			s.only, s.onlyGroup = host.Value, group
		}
	}
}

// addLookup records what a request needs to look up to find the group of the value.
func (s *split) addLookup(value plan.Entry) {
	if s.by == factHost {
		s.longest = max(s.longest, len(value.Value))
	}
	if s.by == factHeader && len(s.names) <= maxNames && !slices.Contains(s.names, value.Key) {
		s.names = append(slices.Clip(s.names), value.Key)
	}
}

// addPrefixes records the lengths by which a request looks up the prefixes of the match.
func (s *split) addPrefixes(m *plan.Match) {
	switch s.by {
	case factPath:
		for _, pattern := range m.Paths {
			if prefix, open := strings.CutSuffix(pattern, "*"); open {
				s.addLength(len(prefix))
			}
		}
	case factDescriptor:
		for i := range m.Descriptors {
			if w := &m.Descriptors[i]; w.Prefix {
				s.addLength(plan.IndexedLength(len(w.Value)))
			}
		}
	default: // the other facts have no prefixes
	}
}

func (s *split) addLength(length int) {
	if at, found := slices.BinarySearch(s.lengths, length); !found {
		s.lengths = slices.Insert(slices.Clip(s.lengths), at, length)
	}
}

// with returns the split with one more match.
func (s *split) with(c *indexEntry, used facts) *split {
	next := *s
	values := s.by.valuesOf(c.match, used, func(e plan.Entry) int { return s.groups.Get(e).len() })
	if len(values) == 0 {
		next.rest = s.rest.with(c, used.with(s.by))
	}
	for _, value := range values {
		next.groups = next.groups.With(value, next.groups.Get(value).with(c, used.with(s.by)))
		next.addLookup(value)
		next.addPrefixes(c.match)
	}
	next.setOnly()
	return &next
}

// without returns the split without the match, or s itself if it does not have the match. What addLookup and addPrefixes have
// recorded stays, which costs a request some lookups.
func (s *split) without(c *indexEntry, used facts) *split {
	next := *s
	values := s.by.entriesOf(c.match, used) // the group of one of them has the match
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
	next.setOnly()
	return &next
}

// len returns the number of matches.
func (n *node) len() int {
	if n == nil {
		return 0
	}
	return int(n.size)
}

// find adds the matches that may hold for the request.
func (n *node) find(f *finding, a *plan.Attributes) {
	switch {
	case n == nil:
	case n.split == nil:
		f.lists = append(f.lists, n.matches)
	default:
		n.split.rest.find(f, a)
		n.split.find(f, a)
	}
}

func (s *split) find(f *finding, a *plan.Attributes) {
	switch s.by {
	case factTarget:
		s.findTargets(f, a)
	case factHost:
		s.findHost(f, a)
	case factDomain:
		s.groups.Get(plan.Entry{Value: a.Domain}).find(f, a)
	case factPath:
		s.findPath(f, a)
	case factDescriptor:
		var seen nodes
		for _, d := range a.Descriptors {
			s.findDescriptor(f, a, d, &seen)
		}
	case factHeader:
		s.findHeaders(f, a)
	case factQueryParameter:
		s.findQueryParameters(f, a)
	case factMethod, numberOfFacts:
		s.groups.Get(plan.Entry{Value: a.Method}).find(f, a)
	}
}

// findTargets looks up each target, and the whole of one that is a part.
func (s *split) findTargets(f *finding, a *plan.Attributes) {
	for _, t := range a.Targets {
		s.groups.Get(plan.Entry{Value: string(t)}).find(f, a)
		if whole := t.Whole(); whole != t {
			s.groups.Get(plan.Entry{Value: string(whole)}).find(f, a)
		}
	}
}

// findHost looks up the host itself and every suffix that starts with a dot.
func (s *split) findHost(f *finding, a *plan.Attributes) {
	if s.only != "" {
		if strings.HasSuffix(a.Host, s.only) { // a match also examines the whole host
			s.onlyGroup.find(f, a)
		}
		return
	}
	name := a.Host
	if extra := len(name) - s.longest; extra > 0 { // look up no suffix that is longer
		dot := strings.IndexByte(name[extra:], '.')
		if dot < 0 {
			return
		}
		name = name[extra+dot:]
	}
	for name != "" {
		s.groups.Get(plan.Entry{Value: name}).find(f, a)
		i := strings.IndexByte(name[1:], '.')
		if i < 0 {
			return
		}
		name = name[1+i:]
	}
}

// findPath looks up the path itself and its prefixes.
func (s *split) findPath(f *finding, a *plan.Attributes) {
	s.groups.Get(plan.Entry{Value: a.Path}).find(f, a)
	for _, length := range s.lengths {
		if length >= len(a.Path) {
			return
		}
		s.groups.Get(plan.Entry{Value: a.Path[:length]}).find(f, a)
	}
}

// findHeaders looks up each header that a match has, or that the request has if these are fewer.
func (s *split) findHeaders(f *finding, a *plan.Attributes) {
	if len(s.names) > min(len(a.Headers), maxNames) {
		for name := range a.Headers {
			s.findHeader(f, a, name)
		}
		return
	}
	for _, name := range s.names {
		s.findHeader(f, a, name)
	}
}

// findHeader looks up the header: for any value, with its value, and with each element of it.
func (s *split) findHeader(f *finding, a *plan.Attributes, name string) {
	value, present := a.Headers[name]
	if !present {
		return
	}
	s.groups.Get(plan.Entry{Key: name}).find(f, a)
	if value == "" {
		return
	}
	if !strings.Contains(value, ",") {
		s.groups.Get(plan.Entry{Key: name, Value: value}).find(f, a)
		return
	}
	elements := a.ElementsOf(name, value)
	if elements == nil { // unreadable: any of them may be among the elements
		s.findAll(f, a, func(e plan.Entry) bool { return e.Key == name && e.Value != "" })
		return
	}
	for element := range elements {
		if element != "" {
			s.groups.Get(plan.Entry{Key: name, Value: element}).find(f, a)
		}
	}
}

// findQueryParameters looks up all parameters, in all readings.
func (s *split) findQueryParameters(f *finding, a *plan.Attributes) {
	if a.Query == "" {
		return
	}
	v := a.QueryValues()
	if v.Unreadable {
		s.findAll(f, a, func(plan.Entry) bool { return true })
		return
	}
	for e := range v.AllEntries() {
		s.groups.Get(e).find(f, a)
	}
}

// findAll looks in all groups whose entry is selected, for values that are unreadable. It ends when more policies match
// than have room: then the request is denied, see Found.Uncertain, and further ones would only take time.
func (s *split) findAll(f *finding, a *plan.Attributes, selected func(plan.Entry) bool) {
	f.unreadable = true
	denying := map[*plan.Plan]bool{}
	for e, n := range s.groups.All() {
		if !selected(e) {
			continue
		}
		before := len(f.lists)
		n.find(f, a)
		for _, list := range f.lists[before:] {
			for _, c := range list {
				if c.needsRoom(a) {
					denying[c.plan] = true
				}
			}
		}
		if len(denying) > plan.MaxMatchedPolicies {
			return
		}
	}
}

// needsRoom reports whether the match holds for the request, which then certainly needs room for an enforcing policy:
// no expression, override or missing key can exempt it.
func (c *indexEntry) needsRoom(a *plan.Attributes) bool {
	p := c.plan
	return p.Mode == plan.ModeEnforce && c.match.When == "" && (len(p.Key) == 0 || p.OnMissingKey != plan.MissingKeySkip) &&
		!slices.ContainsFunc(p.Overrides, func(o plan.Override) bool { return o.Action == plan.ActionAllow }) &&
		c.match.Holds(a) && holdsDescriptors(c.match, a)
}

// findDescriptor looks up each entry: with its value, with beginnings of it, and for any value.
func (s *split) findDescriptor(f *finding, a *plan.Attributes, d plan.Descriptor, seen *nodes) {
	for _, e := range d {
		s.findEntry(f, a, e, seen)
		for _, length := range s.lengths {
			if length >= len(e.Value) {
				break
			}
			s.findEntry(f, a, plan.Entry{Key: e.Key, Value: e.Value[:length]}, seen)
		}
		if e.Value != "" {
			s.findEntry(f, a, plan.Entry{Key: e.Key}, seen)
		}
	}
}

// findEntry looks in the group of the entry, if nothing before has led to it.
func (s *split) findEntry(f *finding, a *plan.Attributes, e plan.Entry, seen *nodes) {
	if n := s.groups.Get(e); n != nil && seen.add(n) {
		n.find(f, a)
	}
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
