// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"iter"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// NearMatch is a match that holds for a request except for at most one field. Its expression is
// not evaluated.
type NearMatch struct {
	Plan *plan.Plan
	// Match is the index in Plan.Matches.
	Match int
	// Field is the one that does not hold, or NoField.
	Field plan.Field
}

// NearMatches returns the near matches for the normalized attributes, in the order of the plans'
// IDs, also of disabled plans. It looks at every plan, without the index.
func (s *Snapshot) NearMatches(a *plan.Attributes) iter.Seq[NearMatch] {
	return func(yield func(NearMatch) bool) {
		for _, p := range s.Plans() {
			for i := range p.Matches {
				field, near := onlyMismatch(&p.Matches[i], a)
				if near && !yield(NearMatch{Plan: p, Match: i, Field: field}) {
					return
				}
			}
		}
	}
}

// onlyMismatch returns the field that does not hold, or NoField. ok is false if several do not.
func onlyMismatch(m *plan.Match, a *plan.Attributes) (field plan.Field, ok bool) {
	field = m.Mismatch(a, plan.NoField)
	if field != plan.NoField && m.Mismatch(a, field) != plan.NoField {
		return field, false
	}
	if holdsDescriptors(m, a) {
		return field, true
	}
	return plan.FieldDescriptors, field == plan.NoField
}

func holdsDescriptors(m *plan.Match, a *plan.Attributes) bool {
	return len(m.Descriptors) == 0 ||
		slices.ContainsFunc(a.Descriptors, m.HoldsDescriptor)
}

// Repaired returns the attributes with the first value that the match wants of the field, and the
// match as AppendMatches finds it for them: once for each descriptor for which it holds.
func (n *NearMatch) Repaired(a plan.Attributes) (plan.Attributes, []plan.Found) {
	c := indexEntry{plan: n.Plan, position: n.Match, match: &n.Plan.Matches[n.Match]}
	switch n.Field {
	case plan.FieldTargets:
		a.Targets = c.match.Targets[:1]
	case plan.FieldDomain:
		a.Domain = c.match.Domain
	case plan.FieldMethods:
		a.Method = c.match.Methods[0]
	case plan.FieldHosts:
		a.Host = strings.Replace(c.match.Hosts[0], "*", "any", 1)
	case plan.FieldPaths:
		a.Path = strings.TrimSuffix(c.match.Paths[0], "*")
	case plan.FieldHeaders:
		a.SetHeaders(c.match.Headers)
	case plan.FieldQueryParameters:
		a.AddQueryParameters(c.match.QueryParameters)
	case plan.FieldDescriptors:
		a.Descriptors = append(slices.Clone(a.Descriptors), c.match.SampleDescriptor())
	case plan.NoField, plan.FieldWhen:
	}
	return a, c.appendTo(nil, &a, &certain{})
}
