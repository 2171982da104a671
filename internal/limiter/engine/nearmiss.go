// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// maxNearExpressions bounds the expressions that are evaluated to find near misses: compiling one
// takes about 0.1 ms. A match whose expression is not evaluated counts as near.
const maxNearExpressions = 200

// nearMisses returns the policies that do not apply for one reason, one reason for each policy,
// sorted by rank and ID.
func (v *view) nearMisses(a *plan.Attributes, r *report) []limiter.NearMiss {
	n := &nearSearch{view: v, attributes: a, expressions: maxNearExpressions}
	applies := make(map[*policy]bool, len(r.applied))
	for i := range r.applied {
		applies[r.applied[i].policy] = true
	}
	for near := range v.snapshot.NearMatches(a) {
		if !applies[v.policies[near.Plan]] && n.isMiss(&near) {
			n.add(near.Plan, n.missOf(&near))
		}
	}
	for _, p := range v.snapshot.Plans() {
		if len(p.Matches) == 0 && p.Mode != plan.ModeDisabled {
			n.add(p, limiter.NearMiss{Policy: p.ID(), Reason: limiter.NearByName})
		}
	}
	for _, s := range v.snapshot.Skipped() {
		detail := s.Problem
		if s.LastGood {
			detail += "; its last readable version is in force"
		}
		n.misses = append(n.misses, limiter.NearMiss{Policy: s.ID, Reason: limiter.NearNotLoaded, Detail: detail})
	}
	slices.SortStableFunc(n.misses, func(a, b limiter.NearMiss) int { return cmp.Compare(a.Rank(), b.Rank()) })
	return n.misses
}

// nearSearch is the search for near misses.
type nearSearch struct {
	*view
	attributes  *plan.Attributes
	misses      []limiter.NearMiss
	last        *plan.Plan // of the last miss
	expressions int        // that may still be evaluated
}

// isMiss reports whether the near match would hold, and its policy apply, without the one reason.
// A match of a disabled policy must hold already.
func (n *nearSearch) isMiss(near *plan.NearMatch) bool {
	p := n.policies[near.Plan]
	enabled := p.plan.Mode != plan.ModeDisabled
	switch {
	case near.Field == plan.NoField && enabled: // the decision found that the expression does not hold
		return true
	case near.Field != plan.NoField && !enabled:
		return false
	case p.conditions[near.Match] == nil:
		return true
	case n.expressions == 0:
		return true
	}
	n.expressions--
	repaired, found := near.Repaired(*n.attributes)
	return slices.ContainsFunc(found, func(f plan.Found) bool {
		holds, _ := applicable{policy: p, descriptor: f.Descriptor}.holds(f.Match, &repaired)
		return holds
	})
}

// add adds the miss, unless the policy has one of lower rank already.
func (n *nearSearch) add(p *plan.Plan, miss limiter.NearMiss) {
	if n.last != p {
		n.misses, n.last = append(n.misses, miss), p
		return
	}
	if last := &n.misses[len(n.misses)-1]; miss.Rank() < last.Rank() {
		*last = miss
	}
}

func (n *nearSearch) missOf(near *plan.NearMatch) limiter.NearMiss {
	miss := limiter.NearMiss{Policy: n.policies[near.Plan].id, Match: near.Match}
	if near.Plan.Mode == plan.ModeDisabled {
		miss.Reason = limiter.NearDisabled
		return miss
	}
	miss.Reason, miss.Field = limiter.NearMismatch, cmp.Or(near.Field, plan.FieldWhen)
	m, a := &near.Plan.Matches[near.Match], n.attributes
	switch miss.Field {
	case plan.FieldHosts:
		miss.Wants, miss.Got = m.Hosts, given(a.Host)
	case plan.FieldMethods:
		miss.Wants, miss.Got = m.Methods, given(a.Method)
	case plan.FieldPaths:
		miss.Wants, miss.Got = m.Paths, given(a.Path)
	case plan.FieldDomain:
		miss.Wants, miss.Got = []string{m.Domain}, given(a.Domain)
	case plan.FieldDescriptors:
		miss.Wants = []string{textOf(m.Descriptors)}
		for _, d := range a.Descriptors {
			miss.Got = append(miss.Got, textOf(d))
		}
	case plan.FieldWhen:
		miss.Wants, miss.Got = []string{m.When}, []string{"false"}
	case plan.NoField:
	}
	return miss
}

// given returns the fact as a list, which is empty if it is absent.
func given(fact string) []string {
	if fact == "" {
		return nil
	}
	return []string{fact}
}

// textOf returns the entries as "key=value, other=value". An entry that wants any value is only
// its key.
func textOf(entries []plan.Entry) string {
	texts := make([]string, len(entries))
	for i, e := range entries {
		texts[i] = e.Key
		if e.Value != "" {
			texts[i] += "=" + e.Value
		}
	}
	return strings.Join(texts, ", ")
}
