// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"iter"
	"slices"
	"sync"
)

// index finds the matches that may hold for a request. It is a tree: many matches are
// divided into groups by the fact that distinguishes them best, and the groups again by
// other facts. So a decision evaluates only a few matches, for any number of policies for
// other requests. It is immutable: a change of a plan copies the nodes on the way to its matches.
type index struct{ root *node }

// candidate is one match of one plan.
type candidate struct {
	position int // in Plan.Matches
	plan     *Plan
	match    *Match
}

// node is a set of matches, as a list or divided into groups. The nil node is empty.
type node struct {
	matches []*candidate
	split   *split
	size    int32 // matches, each once
	limit   int32 // a node with more matches is rebuilt
}

const (
	// maxUnsplit is the number of matches that are evaluated one by one.
	maxUnsplit = 8
	// maxCopies bounds the copies of a match: it is copied into the group of each of its hosts, within each
	// of these into the group of each of its paths, and so on.
	maxCopies = MaxPatterns * MaxPatterns
)

// with returns the index with the changed plans of the set, by ID; nil stands for a removed one.
func (x *index) with(before *recordSet[*Plan], changed map[string]*Plan) index {
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
		for _, c := range candidatesOf(was) {
			root = root.without(c, 0)
		}
		for _, c := range candidatesOf(p) {
			root = root.with(c, 0)
		}
	}
	return index{root}
}

func newIndex(plans iter.Seq2[string, *Plan]) index {
	var all []*candidate
	for _, p := range plans {
		all = append(all, candidatesOf(p)...)
	}
	return index{newNode(all, 0)}
}

// candidatesOf returns the matches of the plan, none of a disabled plan. p may be nil.
func candidatesOf(p *Plan) (all []*candidate) {
	if p == nil || p.Mode == ModeDisabled {
		return nil
	}
	for i := range p.Matches {
		all = append(all, &candidate{position: i, plan: p, match: &p.Matches[i]})
	}
	return all
}

// newNode divides the matches by the fact that leaves the fewest candidates, if any fact
// leaves fewer. used are the facts by which the levels above are divided.
func newNode(matches []*candidate, used facts) *node {
	if len(matches) == 0 {
		return nil
	}
	n := &node{size: int32(len(matches)), limit: maxUnsplit} //nolint:gosec // fewer than 2^31
	if len(matches) <= maxUnsplit {
		n.matches = matches
		return n
	}
	n.limit = 2 * n.size
	var best *grouping
	for i := range numberOfFacts {
		f := fact(i)
		if used.has(f) {
			continue
		}
		g := f.group(matches, used)
		if g.largest < len(matches) && (best == nil || g.largest < best.largest) {
			best = g
		}
		if best != nil && best.largest <= maxUnsplit {
			break // no other fact can be much better
		}
	}
	if best == nil {
		n.matches = matches
	} else {
		n.split = newSplit(best, used)
	}
	return n
}

// with returns the node with one more match.
func (n *node) with(c *candidate, used facts) *node {
	if n == nil {
		return newNode([]*candidate{c}, used)
	}
	if n.size >= n.limit {
		return newNode(append(n.all(), c), used)
	}
	next := &node{size: n.size + 1, limit: n.limit}
	if n.split != nil {
		next.split = n.split.with(c, used)
	} else {
		next.matches = append(slices.Clip(n.matches), c)
	}
	return next
}

// without returns the node without the match, or n itself if it does not have the match.
func (n *node) without(c *candidate, used facts) *node {
	if n == nil {
		return nil
	}
	next := &node{size: n.size - 1, limit: n.limit}
	if n.split != nil {
		if next.split = n.split.without(c, used); next.split == n.split {
			return n
		}
	} else {
		at := slices.IndexFunc(n.matches, c.isSame)
		if at < 0 {
			return n
		}
		next.matches = slices.Concat(n.matches[:at], n.matches[at+1:])
	}
	if next.size <= maxUnsplit/2 {
		return newNode(next.all(), used)
	}
	return next
}

// isSame reports whether the two are the same match of the same plan.
func (c *candidate) isSame(other *candidate) bool {
	return c.plan == other.plan && c.position == other.position
}

// all returns the matches, each once.
func (n *node) all() []*candidate {
	if n.split == nil {
		return slices.Clone(n.matches)
	}
	all, seen := make([]*candidate, 0, n.size), make(map[*candidate]bool, n.size)
	n.visit(func(c *candidate) {
		if !seen[c] {
			seen[c] = true
			all = append(all, c)
		}
	})
	return all
}

// visit calls do for each copy of a match.
func (n *node) visit(do func(*candidate)) {
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

// candidates pools the memory for the candidates of a request.
var candidates = sync.Pool{New: func() any { return new([]*candidate) }}

// appendMatches appends the matches that hold for the request, in the order of the plans' IDs,
// and for one plan in the order of descriptors.
func (x *index) appendMatches(found []Found, a *Attributes) []Found {
	buffer := candidates.Get().(*[]*candidate) //nolint:forcetypeassert // the pool holds only these
	defer candidates.Put(buffer)
	*buffer = x.root.find((*buffer)[:0], a)
	matches := *buffer
	// A match is found twice if two of its hosts lead to it.
	slices.SortFunc(matches, func(a, b *candidate) int { return cmp.Or(compareIDs(a.plan, b.plan), a.position-b.position) })
	var r room
	for len(matches) > 0 {
		plan := matches[0].plan
		n := slices.IndexFunc(matches, func(c *candidate) bool { return c.plan != plan })
		if n < 0 {
			n = len(matches)
		}
		found = r.appendMatches(found, matches[:n], a)
		matches = matches[n:]
	}
	return found
}

// room is what MaxNamespaceMatches leaves of the matches of one Namespace.
type room struct {
	namespace        string
	enforced, shadow int  // matches of policies with that mode
	uncertain        bool // one of them is uncertain
}

// of returns the number of matches that the policies with the plan's mode have, so far.
func (r *room) of(p *Plan) *int {
	if r.namespace != p.Namespace {
		*r = room{namespace: p.Namespace}
	}
	if p.Mode == ModeEnforce {
		return &r.enforced
	}
	return &r.shadow
}

// appendMatches appends the matches of one plan that hold, in the order of descriptors. If they have no room
// it appends only the first one, as left out.
func (r *room) appendMatches(found []Found, matches []*candidate, a *Attributes) []Found {
	used, first := r.of(matches[0].plan), len(found)
	var known certain
	for i := range matches {
		if i > 0 && matches[i] == matches[i-1] {
			continue
		}
		found = matches[i].appendTo(found, a, &known)
		r.uncertain = r.uncertain || len(found) > first && found[len(found)-1].Uncertain
		if *used+len(found)-first > MaxNamespaceMatches {
			found[first].LeftOut = true
			found[first].Uncertain = r.uncertain // otherwise a client could push it out
			return found[:first+1]
		}
	}
	*used += len(found) - first
	slices.SortStableFunc(found[first:], func(a, b Found) int { return a.Descriptor - b.Descriptor })
	return found
}

// certain is the set of the descriptors for which a match of the plan certainly holds, so that its
// further matches do not matter.
type certain struct {
	bits uint64 // of the first 64 descriptors
	all  bool   // AllDescriptors
}

func (c *certain) has(descriptor int) bool {
	if descriptor == AllDescriptors {
		return c.all
	}
	return c.bits&(1<<descriptor) != 0
}

func (c *certain) add(descriptor int) {
	if descriptor == AllDescriptors {
		c.all = true
	} else {
		c.bits |= 1 << descriptor
	}
}

// appendTo appends the match for each descriptor for which it holds, and no earlier match of the plan
// certainly does.
func (c *candidate) appendTo(found []Found, a *Attributes, known *certain) []Found {
	uncertain := false
	add := func(descriptor int) {
		found = append(found, Found{Plan: c.plan, Match: c.position, Descriptor: descriptor, Uncertain: uncertain})
		if c.match.When == "" && !uncertain {
			known.add(descriptor)
		}
	}
	wantsDescriptor := len(c.match.Descriptors) > 0
	if !wantsDescriptor && known.has(AllDescriptors) || !c.match.holds(a) {
		return found
	}
	uncertain = c.match.isUncertain(a)
	if !wantsDescriptor {
		add(AllDescriptors)
		return found
	}
	for i, d := range a.Descriptors {
		if !known.has(i) && d.hasAll(c.match.Descriptors) {
			add(i)
		}
	}
	return found
}
