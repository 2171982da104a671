// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// maxNearExpressions bounds the expressions that are evaluated to find near misses: compiling one
// takes about 0.1 ms.
const maxNearExpressions = 200

// nearMisses returns the policies that do not apply for one reason, one reason for each policy,
// sorted by rank and ID.
func (v *preparedSnapshot) nearMisses(a *plan.Attributes, r *report) []limiter.NearMiss {
	n := &nearSearch{preparedSnapshot: v, attributes: a, expressionsLeft: maxNearExpressions, done: make(map[*plan.Plan]bool, len(r.applied))}
	for i := range r.applied {
		n.done[r.applied[i].plan] = true
	}
	var byRank [limiter.NearRanks][]index.NearMatch
	for near := range v.snapshot.NearMatches(a) {
		if disabled := near.Plan.Mode == plan.ModeDisabled; disabled && near.Field != plan.NoField || n.done[near.Plan] {
			continue // wrong in two ways, or it applies
		}
		miss := n.reasonOf(&near)
		byRank[miss.Rank()] = append(byRank[miss.Rank()], near)
	}
	for _, nearMatches := range byRank {
		for i := range nearMatches {
			n.add(&nearMatches[i])
		}
	}
	n.addWithoutMatch()
	slices.SortStableFunc(n.misses, func(a, b limiter.NearMiss) int { return cmp.Compare(a.Rank(), b.Rank()) })
	return n.misses
}

// nearSearch is the search for near misses.
type nearSearch struct {
	*preparedSnapshot
	attributes      *plan.Attributes
	misses          []limiter.NearMiss
	done            map[*plan.Plan]bool // the plans that apply or have a miss
	expressionsLeft int                 // how many expressions may still be evaluated
}

// add adds the near match, unless its expression does not hold either or its policy has a miss.
func (n *nearSearch) add(near *index.NearMatch) {
	if n.done[near.Plan] {
		return
	}
	holds, verified := n.holdsRepaired(near)
	if !holds {
		return
	}
	miss := n.missOf(near)
	miss.Unverified = !verified
	n.done[near.Plan] = true
	n.misses = append(n.misses, miss)
}

// holdsRepaired reports whether the expression of the near match holds for the request with the
// repaired field. It is true and not verified if too many expressions were evaluated before.
func (n *nearSearch) holdsRepaired(near *index.NearMatch) (holds, verified bool) {
	p := n.policies.Get(near.Plan)
	switch {
	case near.Field == plan.NoField && near.Plan.Mode != plan.ModeDisabled:
		// Only the expression does not hold, as the decision found.
		return true, true
	case p.conditions[near.Match] == nil:
		return true, true
	case n.expressionsLeft == 0:
		return true, false
	}
	n.expressionsLeft--
	repaired, found := near.Repaired(*n.attributes)
	return slices.ContainsFunc(found, func(f plan.Found) bool {
		match := matchedPolicy{policy: p, descriptor: f.Descriptor, match: f.Match}
		holds, _ := match.holds(&repaired)
		return holds
	}), true
}

// addWithoutMatch adds the policies without matches, and those whose plan is not loaded.
func (n *nearSearch) addWithoutMatch() {
	for _, p := range n.snapshot.Plans() {
		if len(p.Matches) == 0 && p.Mode != plan.ModeDisabled {
			n.misses = append(n.misses, limiter.NearMiss{Policy: n.policies.Get(p).id, Reason: limiter.NearByName})
		}
	}
	for _, s := range n.snapshot.Skipped() {
		detail := s.Problem
		if s.LastGood {
			detail += "; its last readable version is in force"
		}
		n.misses = append(n.misses, limiter.NearMiss{Policy: s.ID, Reason: limiter.NearNotLoaded, Detail: detail})
	}
}

// reasonOf returns the miss without what the policy wants and the request has.
func (n *nearSearch) reasonOf(near *index.NearMatch) limiter.NearMiss {
	miss := limiter.NearMiss{Policy: n.policies.Get(near.Plan).id, Match: near.Match, Reason: limiter.NearDisabled}
	if near.Plan.Mode != plan.ModeDisabled {
		miss.Reason, miss.Field = limiter.NearMismatch, cmp.Or(near.Field, plan.FieldWhen)
	}
	return miss
}

func (n *nearSearch) missOf(near *index.NearMatch) limiter.NearMiss {
	miss := n.reasonOf(near)
	m, a := &near.Plan.Matches[near.Match], n.attributes
	switch miss.Field {
	case plan.FieldTargets:
		miss.Wants, miss.Got = plan.TargetTexts(m.Targets), plan.TargetTexts(a.Targets)
	case plan.FieldHosts:
		miss.Wants, miss.Got = m.Hosts, listOf(a.Host)
	case plan.FieldMethods:
		miss.Wants, miss.Got = m.Methods, listOf(a.Method)
	case plan.FieldPaths:
		miss.Wants, miss.Got = m.Paths, listOf(a.Path)
	case plan.FieldHeaders:
		miss.Wants, miss.Got = []string{textOf(m.Headers)}, headersOf(m, a)
	case plan.FieldQueryParameters:
		miss.Wants, miss.Got = []string{textOf(m.QueryParameters)}, listOf(a.Query)
	case plan.FieldDomain:
		miss.Wants, miss.Got = []string{m.Domain}, listOf(a.Domain)
	case plan.FieldDescriptors:
		miss.Wants, miss.Got = []string{strings.Join(m.DescriptorTexts(), ", ")}, textsOf(a.Descriptors)
	case plan.FieldWhen:
		miss.Wants, miss.Got = []string{m.When}, []string{"false"}
	case plan.NoField:
	}
	return miss
}

// headersOf returns the headers of the request that the match wants.
func headersOf(m *plan.Match, a *plan.Attributes) (texts []string) {
	for _, e := range m.Headers {
		if value, present := a.Headers[e.Key]; present {
			texts = append(texts, textOf([]plan.Entry{{Key: e.Key, Value: value}}))
		}
	}
	return texts
}

func textsOf(descriptors []plan.Descriptor) (texts []string) {
	for _, d := range descriptors {
		texts = append(texts, textOf(d))
	}
	return texts
}

// listOf returns the fact as a list, which is empty if it is absent.
func listOf(fact string) []string {
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
