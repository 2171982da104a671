// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"slices"
	"strings"
)

// NearMatch is a match that holds for a request except for at most one field. Its expression is
// not evaluated.
type NearMatch struct {
	Plan *Plan
	// Match is the index in Plan.Matches.
	Match int
	// Field is the one that does not hold, or NoField.
	Field Field
}

// NearMatches returns the near matches for the normalized attributes, in the order of the plans'
// IDs, also of disabled plans. It looks at every plan, without the index.
func (s *Snapshot) NearMatches(a *Attributes) iter.Seq[NearMatch] {
	return func(yield func(NearMatch) bool) {
		for _, p := range s.Plans() {
			for i := range p.Matches {
				field, near := p.Matches[i].onlyMismatch(a)
				if near && !yield(NearMatch{Plan: p, Match: i, Field: field}) {
					return
				}
			}
		}
	}
}

// onlyMismatch returns the field that does not hold, or NoField. ok is false if several do not.
func (m *Match) onlyMismatch(a *Attributes) (field Field, ok bool) {
	field = m.mismatch(a, NoField)
	if field != NoField && m.mismatch(a, field) != NoField {
		return field, false
	}
	if m.holdsDescriptors(a) {
		return field, true
	}
	return FieldDescriptors, field == NoField
}

func (m *Match) holdsDescriptors(a *Attributes) bool {
	return len(m.Descriptors) == 0 ||
		slices.ContainsFunc(a.Descriptors, m.holdsDescriptor)
}

// Repaired returns the attributes with the first value that the match wants of the field, and the
// match as AppendMatches finds it for them: once for each descriptor for which it holds.
func (n *NearMatch) Repaired(a Attributes) (Attributes, []Found) {
	c := candidate{plan: n.Plan, position: n.Match, match: &n.Plan.Matches[n.Match]}
	switch n.Field {
	case FieldTargets:
		a.Targets = c.match.Targets[:1]
	case FieldDomain:
		a.Domain = c.match.Domain
	case FieldMethods:
		a.Method = c.match.Methods[0]
	case FieldHosts:
		a.Host = strings.Replace(c.match.Hosts[0], "*", "any", 1)
	case FieldPaths:
		a.Path = strings.TrimSuffix(c.match.Paths[0], "*")
	case FieldHeaders:
		a.SetHeaders(c.match.Headers)
	case FieldQueryParameters:
		a.AddQueryParameters(c.match.QueryParameters)
	case FieldDescriptors:
		a.Descriptors = append(slices.Clone(a.Descriptors), c.match.SampleDescriptor())
	case NoField, FieldWhen:
	}
	return a, c.appendTo(nil, &a, &certain{})
}
