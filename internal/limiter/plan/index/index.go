// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"cmp"
	"iter"
	"slices"
	"sync"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// index finds the matches that may hold for a request. It is a tree: many matches are divided into groups by the targets,
// the hosts and the domain that they require, so that a request meets the matches of no other tenant, and the groups again
// by the fact that distinguishes them best. So a decision examines only a few matches, for any number of policies for other
// requests. It is immutable: a change of a plan copies the nodes on the way to its matches.
type index struct{ root *node }

// indexEntry is one match of one plan.
type indexEntry struct {
	position int // in Plan.Matches
	plan     *plan.Plan
	match    *plan.Match
}

// compare orders matches by the IDs of their plans.
func (c *indexEntry) compare(other *indexEntry) int {
	return cmp.Or(plan.CompareIDs(c.plan, other.plan), c.position-other.position)
}

// node is a set of matches, as a list or divided into groups. The nil node is empty.
type node struct {
	matches []*indexEntry // in order
	split   *split
	size    int32 // matches, each once
	limit   int32 // a node with more matches is rebuilt
}

const (
	// maxUnsplit is the number of matches that are evaluated one by one.
	maxUnsplit = 8
	// maxCopies bounds the copies of a match that requires one of several values of several facts. Along the first such
	// fact it is copied for each value, also beyond the bound: the sum of its values bounds the index, never their product.
	maxCopies = 8
)

// with returns the index with the changed plans of the set, by ID; nil stands for a removed one.
func (x *index) with(before *recordSet[*plan.Plan], changed map[string]*plan.Plan) index {
	// To build the index costs less than many changes.
	if len(changed) > before.byID.Len()/4 {
		after := before.with(changed)
		return newIndex(after.byID.All())
	}
	root := x.root
	for id, p := range changed {
		was := before.byID.Get(id)
		if was == p {
			continue
		}
		for _, c := range entriesOf(was) {
			root = root.without(c, 0)
		}
		for _, c := range entriesOf(p) {
			root = root.with(c, 0)
		}
	}
	return index{root}
}

func newIndex(plans iter.Seq2[string, *plan.Plan]) index {
	var all []*indexEntry
	for _, p := range plans {
		all = append(all, entriesOf(p)...)
	}
	slices.SortFunc(all, (*indexEntry).compare)
	return index{newNode(all, 0)}
}

// entriesOf returns the matches of the plan, none of a disabled plan. p may be nil.
func entriesOf(p *plan.Plan) (all []*indexEntry) {
	if p == nil || p.Mode == plan.ModeDisabled {
		return nil
	}
	for i := range p.Matches {
		all = append(all, &indexEntry{position: i, plan: p, match: &p.Matches[i]})
	}
	return all
}

// newNode divides the matches, which are in order, if a fact distinguishes them. used are the facts by which the levels
// above are divided.
func newNode(matches []*indexEntry, used facts) *node {
	if len(matches) == 0 {
		return nil
	}
	n := &node{size: int32(len(matches)), limit: maxUnsplit} //nolint:gosec // fewer than 2^31
	if len(matches) > maxUnsplit {
		n.limit = 2 * n.size
		if by := bestFact(matches, used); by < numberOfFacts {
			n.split = newSplit(by, matches, used)
			return n
		}
	}
	n.matches = slices.Clone(matches) // without unused capacity
	return n
}

// with returns the node with one more match.
func (n *node) with(c *indexEntry, used facts) *node {
	if n == nil {
		return newNode([]*indexEntry{c}, used)
	}
	if n.size >= n.limit {
		return newNode(inserted(n.all(), c), used)
	}
	next := &node{size: n.size + 1, limit: n.limit}
	if n.split != nil {
		next.split = n.split.with(c, used)
	} else {
		next.matches = inserted(n.matches, c)
	}
	return next
}

// inserted returns the matches with one more, at its place.
func inserted(matches []*indexEntry, c *indexEntry) []*indexEntry {
	at, _ := slices.BinarySearchFunc(matches, c, (*indexEntry).compare)
	return slices.Concat(matches[:at], []*indexEntry{c}, matches[at:])
}

// without returns the node without the match, or n itself if it does not have the match.
func (n *node) without(c *indexEntry, used facts) *node {
	if n == nil {
		return nil
	}
	next := &node{size: n.size - 1, limit: n.limit}
	if n.split != nil {
		if next.split = n.split.without(c, used); next.split == n.split {
			return n
		}
	} else {
		at, found := slices.BinarySearchFunc(n.matches, c, (*indexEntry).compare)
		if !found {
			return n
		}
		next.matches = slices.Concat(n.matches[:at], n.matches[at+1:])
	}
	if next.size <= maxUnsplit/2 {
		return newNode(next.all(), used)
	}
	return next
}

// all returns the matches in order, each once.
func (n *node) all() []*indexEntry {
	if n.split == nil {
		return n.matches
	}
	all := make([]*indexEntry, 0, n.size)
	n.visit(func(c *indexEntry) { all = append(all, c) })
	slices.SortFunc(all, (*indexEntry).compare)
	return slices.Compact(all)
}

// visit calls do for each copy of a match.
func (n *node) visit(do func(*indexEntry)) {
	if n == nil {
		return
	}
	for _, c := range n.matches {
		do(c)
	}
	if n.split != nil {
		n.split.rest.visit(do)
		for _, group := range n.split.groups.All() {
			group.visit(do)
		}
	}
}

// finding is what the index finds for a request. One match may be in several of the lists.
type finding struct {
	lists  [][]*indexEntry // each in order
	sorted []*indexEntry   // the memory for few matches
	// unreadable is true if all values were looked up in place of unreadable ones.
	unreadable bool
}

// findings pools the memory for the entries of a request.
var findings = sync.Pool{New: func() any { return new(finding) }}

// maxSorted is the number of entries that are sorted, in pooled memory, instead of merged.
const maxSorted = 64

// entries returns the matches that were found, in order, each once.
func (f *finding) entries() []*indexEntry {
	n := 0
	for _, list := range f.lists {
		n += len(list)
	}
	if n > maxSorted || len(f.lists) == 1 {
		return merged(f.lists)
	}
	for _, list := range f.lists {
		f.sorted = append(f.sorted, list...)
	}
	slices.SortFunc(f.sorted, (*indexEntry).compare)
	return slices.Compact(f.sorted)
}

// merged returns the matches of the lists, of which there is at least one, in order, each once. It compares each match as
// often as the number of lists can be halved.
func merged(lists [][]*indexEntry) []*indexEntry {
	if len(lists) == 1 {
		return lists[0]
	}
	a, b := merged(lists[:len(lists)/2]), merged(lists[len(lists)/2:])
	all := make([]*indexEntry, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		order := a[0].compare(b[0])
		if order <= 0 {
			all, a = append(all, a[0]), a[1:]
		} else {
			all = append(all, b[0])
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// appendMatches appends the matches that hold for the request, in the order of the plans' IDs,
// and for one plan in the order of descriptors.
func (x *index) appendMatches(found []plan.Found, a *plan.Attributes) []plan.Found {
	f := findings.Get().(*finding) //nolint:forcetypeassert // the pool holds only these
	defer findings.Put(f)
	*f = finding{lists: f.lists[:0], sorted: f.sorted[:0]}
	x.root.find(f, a)
	r := capacity{unreadable: f.unreadable}
	for matches := f.entries(); len(matches) > 0; {
		plan := matches[0].plan
		n := slices.IndexFunc(matches, func(c *indexEntry) bool { return c.plan != plan })
		if n < 0 {
			n = len(matches)
		}
		found = r.appendMatches(found, matches[:n], a)
		matches = matches[n:]
	}
	return found
}

// capacity is what MaxNamespaceMatches leaves of the matches of one Namespace.
type capacity struct {
	namespace        string
	enforced, shadow used // by policies with that mode
	uncertain        bool // a match of the Namespace is uncertain
	unreadable       bool // see finding
}

// used is the number of matches of a Namespace that were examined, and of matches that hold, once for each descriptor.
type used struct{ examined, held int }

// of returns what the policies with the plan's mode have used, so far.
func (r *capacity) of(p *plan.Plan) *used {
	if r.namespace != p.Namespace {
		*r = capacity{namespace: p.Namespace, unreadable: r.unreadable}
	}
	if p.Mode == plan.ModeEnforce {
		return &r.enforced
	}
	return &r.shadow
}

// appendMatches appends the matches of one plan that hold, in the order of descriptors. If they have no room
// it appends only the first one, as left out.
func (r *capacity) appendMatches(found []plan.Found, matches []*indexEntry, a *plan.Attributes) []plan.Found {
	used, first := r.of(matches[0].plan), len(found)
	if used.examined+len(matches) > plan.MaxNamespaceMatches {
		return r.appendUnexamined(found, matches, a)
	}
	used.examined += len(matches)
	var known certain
	for _, c := range matches {
		found = c.appendTo(found, a, &known)
		r.uncertain = r.uncertain || len(found) > first && found[len(found)-1].Uncertain
		if used.held+len(found)-first > plan.MaxNamespaceMatches {
			found[first].LeftOut = true
			found[first].Uncertain = r.uncertain // otherwise a client could push it out
			return found[:first+1]
		}
	}
	used.held += len(found) - first
	slices.SortStableFunc(found[first:], func(a, b plan.Found) int { return a.Descriptor - b.Descriptor })
	return found
}

// appendUnexamined appends the first match of a plan that is for the targets, hosts and domain of the request, as left
// out. A tenant cannot make it decide other requests, because a Namespace needs a grant for these.
func (r *capacity) appendUnexamined(found []plan.Found, matches []*indexEntry, a *plan.Attributes) []plan.Found {
	i := slices.IndexFunc(matches, func(c *indexEntry) bool {
		return c.match.HoldsTargets(a) && c.match.HoldsHosts(a) && c.match.HoldsDomain(a)
	})
	if i < 0 {
		return found
	}
	return append(found, plan.Found{
		Plan: matches[i].plan, Match: matches[i].position, Descriptor: plan.AllDescriptors,
		LeftOut: true, Uncertain: r.unreadable, // otherwise a client could push it out
	})
}

// certain is the set of the descriptors for which a match of the plan certainly holds, so that its
// further matches do not matter.
type certain struct {
	bits uint64 // of the first 64 descriptors
	all  bool   // AllDescriptors
}

func (c *certain) has(descriptor int) bool {
	if descriptor == plan.AllDescriptors {
		return c.all
	}
	return c.bits&(1<<descriptor) != 0
}

func (c *certain) add(descriptor int) {
	if descriptor == plan.AllDescriptors {
		c.all = true
	} else {
		c.bits |= 1 << descriptor
	}
}

// appendTo appends the match for each descriptor for which it holds, and no earlier match of the plan
// certainly does.
func (c *indexEntry) appendTo(found []plan.Found, a *plan.Attributes, known *certain) []plan.Found {
	uncertain := false
	add := func(descriptor int) {
		found = append(found, plan.Found{Plan: c.plan, Match: c.position, Descriptor: descriptor, Uncertain: uncertain})
		if c.match.When == "" && !uncertain {
			known.add(descriptor)
		}
	}
	wantsDescriptor := len(c.match.Descriptors) > 0
	if !wantsDescriptor && known.has(plan.AllDescriptors) || !c.match.Holds(a) {
		return found
	}
	uncertain = c.match.IsUncertain(a)
	if !wantsDescriptor {
		add(plan.AllDescriptors)
		return found
	}
	for i, d := range a.Descriptors {
		if !known.has(i) && c.match.HoldsDescriptor(d) {
			add(i)
		}
	}
	return found
}
