// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// Candidates returns the number of matches that the index finds for a request.
func Candidates(plans []*Plan, a *Attributes) int {
	x := newIndex(plans)
	return len(x.root.find(nil, a))
}

// IndexCopies returns the number of copies of matches in the index.
func IndexCopies(plans []*Plan) int { return newIndex(plans).root.copies() }

func (n *node) copies() int {
	if n.split == nil {
		return len(n.matches)
	}
	total := n.split.rest.copies()
	for _, group := range n.split.groups {
		total += group.copies()
	}
	return total
}
