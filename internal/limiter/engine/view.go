// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// view is a snapshot prepared for deciding: arguments of scripts are built once per plan,
// not per decision.
type view struct {
	snapshot *plan.Snapshot
	policies map[*plan.Plan]*policy
	groups   map[string]*keyGroups // by Namespace
}

// newView prepares the snapshot. Unchanged plans keep their prepared policy, and Namespaces with unchanged key groups
// their keys, from the previous view, which may be nil. now is the clock by which exceptions end.
func newView(snapshot *plan.Snapshot, previous *view, now func() time.Time) *view {
	if previous == nil {
		previous = &view{}
	}
	v := &view{
		snapshot: snapshot, policies: make(map[*plan.Plan]*policy, len(snapshot.Plans())),
		groups: newKeyGroups(snapshot, previous.groups),
	}
	for _, p := range snapshot.Plans() {
		if previous.policies[p] != nil {
			v.policies[p] = previous.policies[p]
		} else {
			v.policies[p] = newPolicy(p)
		}
	}
	v.setExceptions(now)
	return v
}

// setExceptions gives each policy its exceptions. A policy that the previous view has, too, uses them at once.
func (v *view) setExceptions(now func() time.Time) {
	byPolicy := map[string][]*plan.Exception{}
	for _, e := range v.snapshot.Exceptions() {
		byPolicy[e.PolicyID()] = append(byPolicy[e.PolicyID()], e)
	}
	for p, prepared := range v.policies {
		prepared.exceptions.Store(newExceptions(p, byPolicy[prepared.id], prepared.exceptions.Load(), now))
	}
}

// isCurrent reports whether the view has the policy that stores know as p.
func (v *view) isCurrent(p *quota.Policy) bool {
	current, err := v.policyOf(p.ID())
	return err == nil && p.IsVariantOf(current.base.stored)
}

// policyOf returns the policy with the ID, or a *limiter.UnknownPolicyError.
func (v *view) policyOf(id string) (*policy, error) {
	if p := v.policies[v.snapshot.Lookup(id)]; p != nil {
		return p, nil
	}
	return nil, &limiter.UnknownPolicyError{Policy: id}
}
