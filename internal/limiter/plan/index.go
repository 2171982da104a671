// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"sync"
)

// index finds the matches that may hold for a request. It is a tree: many matches are
// divided into groups by the fact that distinguishes them best, and the groups again by
// other facts. So a decision evaluates only a few matches, for any number of policies for
// other requests.
type index struct{ root *node }

// candidate is one match of one plan.
type candidate struct {
	rank     int // of the plan, in the order of IDs
	position int // in Plan.Matches
	plan     *Plan
	match    *Match
}

// node is a set of matches, as a list or divided into groups.
type node struct {
	matches []*candidate
	split   *split
}

const (
	// maxUnsplit is the number of matches that are evaluated one by one.
	maxUnsplit = 8
	// maxCopies bounds the average number of copies of a match: it is copied into the
	// group of each of its hosts, within each of these into the group of each of its
	// paths, and so on.
	maxCopies = MaxPatterns * MaxPatterns
)

func newIndex(plans []*Plan) index {
	var all []*candidate
	for rank, p := range plans {
		if p.Mode == ModeDisabled {
			continue
		}
		for i := range p.Matches {
			all = append(all, &candidate{rank: rank, position: i, plan: p, match: &p.Matches[i]})
		}
	}
	return index{newNode(all, []fact{factTarget, factHost, factPath, factDescriptor, factHeader, factQueryParameter, factDomain, factMethod}, maxCopies)}
}

// newNode divides the matches by the fact that leaves the fewest candidates, if any fact
// leaves fewer.
func newNode(matches []*candidate, facts []fact, copiesPerMatch int) *node {
	if len(matches) <= maxUnsplit {
		return &node{matches: matches}
	}
	var best *grouping
	for _, f := range facts {
		g := f.group(matches)
		if g.largest < len(matches) && g.copies <= copiesPerMatch*len(matches) && (best == nil || g.largest < best.largest) {
			best = g
		}
		if best != nil && best.largest <= maxUnsplit {
			break // no other fact can be much better
		}
	}
	if best == nil {
		return &node{matches: matches}
	}
	copiesPerMatch = copiesPerMatch * len(matches) / best.copies
	others := slices.DeleteFunc(slices.Clone(facts), func(f fact) bool { return f == best.by })
	s := &split{by: best.by, groups: make(map[Entry]*node, len(best.groups)), names: best.names, lengths: best.lengths, longest: best.longest}
	for value, group := range best.groups {
		s.groups[value] = newNode(group, others, copiesPerMatch)
	}
	s.rest = newNode(best.rest, others, copiesPerMatch)
	return &node{split: s}
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
	slices.SortFunc(matches, func(a, b *candidate) int { return cmp.Or(a.rank-b.rank, a.position-b.position) })
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
