// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// LookedAt says how many matches of the plans a decision looks at.
func LookedAt(plans []*Plan, a *Attributes) int {
	x := newIndex(plans)
	return len(x.root.find(nil, a))
}

// Filings says how many places the index files matches in.
func Filings(plans []*Plan) int { return newIndex(plans).root.filings() }

func (n *node) filings() int {
	if n.split == nil {
		return len(n.matches)
	}
	total := n.split.rest.filings()
	for _, group := range n.split.groups {
		total += group.filings()
	}
	return total
}
