// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// report records how the policies of one check are found and evaluated, to explain the decision.
// Decisions have none: the methods of a nil report do nothing.
type report struct {
	matches []int // of the policies that apply, in the order of the chain: the match, or limiter.Named
	applied []appliedPolicy
}

// appliedPolicy is a policy that applies, with what became of it.
type appliedPolicy struct {
	*policy
	match, descriptor int
	key               []string
	override          *override // nil if none selects the key
	// participant is the index in the evaluation, or -1: reason is then why the limits of the
	// policy take no part, and allowed whether it admits the check.
	participant int
	reason      limiter.Reason
	allowed     bool
}

// found records the match because of which the next policy of the chain applies.
func (r *report) found(match int) {
	if r != nil {
		r.matches = append(r.matches, match)
	}
}

// apply records the next policy of the chain, with its key and the override that selects it.
func (r *report) apply(p *policy, descriptor int, key []string, o *override) {
	if r == nil {
		return
	}
	r.applied = append(r.applied, appliedPolicy{
		policy: p, match: r.matches[len(r.applied)], descriptor: descriptor,
		key: slices.Clone(key), override: o, participant: -1,
	})
}

// settle records that the limits of the last policy take no part.
func (r *report) settle(reason limiter.Reason, allowed bool) {
	if r != nil {
		last := &r.applied[len(r.applied)-1]
		last.reason, last.allowed = reason, allowed
	}
}

// participate records the index of the last policy among the participants.
func (r *report) participate(i int) {
	if r != nil {
		r.applied[len(r.applied)-1].participant = i
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

// nameOf returns the name of the fact that the part of a key is, if it has one.
func nameOf(part *plan.KeyPart) string { return part.Header + part.Descriptor + part.Expression }
