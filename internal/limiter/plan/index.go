// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
)

// index finds matches by the facts of a request. It is a tree: where there
// are many of them, they are split into groups by that fact which tells them apart
// best, and the groups again by others. So a decision looks at a few only,
// however many there are for other requests and whatever they differ by.
//
// The index only narrows down. Whether one holds is the Match's to say.
type index struct{ root *node }

// filed is one match of one plan, at that place of Plan.Matches. rank is the plan's
// place in the order of IDs, in which the plans of a decision are returned.
type filed struct {
	rank  int
	place int
	plan  *Plan
	match *Match
}

// node is a set of matches, as a list or split.
type node struct {
	matches []*filed
	split   *split
}

const (
	// few is how many matches are looked at one by one.
	few = 8
	// maxCopies bounds how often a match is filed: it is filed under each of its
	// hosts, and there under each of its paths, and so on.
	maxCopies = MaxPatterns * MaxPatterns
)

func newIndex(plans []*Plan) index {
	var all []*filed
	for rank, p := range plans {
		if p.Mode == ModeDisabled {
			continue
		}
		for i := range p.Matches {
			all = append(all, &filed{rank: rank, place: i, plan: p, match: &p.Matches[i]})
		}
	}
	return index{newNode(all, []fact{factHost, factPath, factDescriptor, factDomain, factMethod}, maxCopies)}
}

// newNode splits the matches by the one of the facts that leaves the fewest to
// look at, if there is one that helps.
func newNode(matches []*filed, facts []fact, copies int) *node {
	if len(matches) <= few {
		return &node{matches: matches}
	}
	var best *grouping
	for _, by := range facts {
		g := by.group(matches)
		if g.largest < len(matches) && g.filings <= copies*len(matches) && (best == nil || g.largest < best.largest) {
			best = g
		}
		if best != nil && best.largest <= few {
			break // no other fact could do better by much
		}
	}
	if best == nil {
		return &node{matches: matches}
	}
	copies = copies * len(matches) / best.filings
	others := slices.DeleteFunc(slices.Clone(facts), func(f fact) bool { return f == best.by })
	s := &split{by: best.by, groups: make(map[Entry]*node, len(best.groups)), lengths: best.lengths}
	for value, group := range best.groups {
		s.groups[value] = newNode(group, others, copies)
	}
	s.rest = newNode(best.rest, others, copies)
	return &node{split: s}
}

// match returns how plans apply to the request, plan by plan in the order of
// their IDs, and for one plan in the order of descriptors.
func (x *index) match(a *Attributes) []Found {
	matches := x.root.find(nil, a)
	if len(matches) == 0 {
		return nil
	}
	// A match is found twice where two of its hosts, or two descriptors, lead to it.
	slices.SortFunc(matches, func(a, b *filed) int { return cmp.Or(a.rank-b.rank, a.place-b.place) })
	var found []Found
	for i := 0; i < len(matches); {
		first, plan := len(found), matches[i].plan
		for ; i < len(matches) && matches[i].plan == plan; i++ {
			if i == 0 || matches[i] != matches[i-1] {
				found = matches[i].appendTo(found, a)
			}
		}
		slices.SortStableFunc(found[first:], func(a, b Found) int { return a.Descriptor - b.Descriptor })
	}
	return found
}

// appendTo appends the ways in which the match holds.
func (f *filed) appendTo(found []Found, a *Attributes) []Found {
	if !f.match.holds(a) {
		return found
	}
	if len(f.match.Descriptors) == 0 {
		return append(found, Found{f.plan, f.place, AnyDescriptor})
	}
	for i, d := range a.Descriptors {
		if d.hasAll(f.match.Descriptors) {
			found = append(found, Found{f.plan, f.place, i})
		}
	}
	return found
}
