// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// report records how the policies of one check are found and evaluated, to explain the decision.
// Decisions have none: the methods of a nil report do nothing.
type report struct {
	applied []appliedPolicy
}

// appliedPolicy is a policy that applies, and its part in the decision.
type appliedPolicy struct {
	*policy
	match, descriptor int
	key               []string
	override          *override  // nil if none selects the key
	group             string     // see selection
	exception         *exception // nil if none is in force for the key
	// charged is the index among the charged policies, or -1 if the limits take no part. reason is then
	// why, and allowed whether the policy allows the check.
	charged int
	reason  limiter.Reason
	allowed bool
}

// apply records the next policy that applies, with its key and the override that selects it.
func (r *report) apply(p *policy, match, descriptor int, key []string, selected *selection) {
	if r == nil {
		return
	}
	r.applied = append(r.applied, appliedPolicy{
		policy: p, match: match, descriptor: descriptor,
		key: slices.Clone(key), override: selected.override, group: selected.group, charged: -1,
	})
}

// except records the exception for the key of the last policy, which may be nil.
func (r *report) except(x *exception) {
	if r != nil {
		r.applied[len(r.applied)-1].exception = x
	}
}

// charge records the index of the last policy among the charged policies.
func (r *report) charge(i int) {
	if r != nil {
		r.applied[len(r.applied)-1].charged = i
	}
}

// exclude records that the limits of the last policy take no part.
func (r *report) exclude(reason limiter.Reason, allowed bool) {
	if r != nil {
		last := &r.applied[len(r.applied)-1]
		last.reason, last.allowed = reason, allowed
	}
}

// reorder puts the policies in the order of the chain. places[i] is the new index of charged policy i.
func (r *report) reorder(places []int) {
	if r == nil {
		return
	}
	slices.SortStableFunc(r.applied, func(a, b appliedPolicy) int { return strings.Compare(a.id, b.id) })
	for i := range r.applied {
		if at := &r.applied[i].charged; *at >= 0 {
			*at = places[*at]
		}
	}
}

// repeats reports whether an earlier descriptor gave the policy the same key, with the same outcome.
func (r *report) repeats(i int) bool {
	a := &r.applied[i]
	return slices.ContainsFunc(r.applied[:i], func(b appliedPolicy) bool {
		return a.policy == b.policy && a.reason == b.reason && slices.Equal(a.key, b.key)
	})
}

// parts returns the parts of the key. given is true for a key that the check gives.
func (a *appliedPolicy) parts(given bool) []limiter.ExplainedKeyPart {
	parts := make([]limiter.ExplainedKeyPart, len(a.key))
	for i, value := range a.key {
		parts[i].Value = value
		if !given {
			parts[i].Type, parts[i].Name = a.plan.Key[i].Type, nameOf(&a.plan.Key[i])
		}
	}
	return parts
}

// nameOf returns the header, descriptor or expression of the key part, "" for other types.
func nameOf(part *plan.KeyPart) string { return part.Header + part.Descriptor + part.Expression }
