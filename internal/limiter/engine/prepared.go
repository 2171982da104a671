// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/persistent"
)

// preparedSnapshot is a snapshot prepared for deciding: arguments of scripts are built once per plan,
// not per decision. It is immutable; the next prepared snapshot shares with it all that did not change.
type preparedSnapshot struct {
	snapshot   *index.Snapshot
	policies   persistent.Map[*plan.Plan, *policy]
	groups     map[string]*keyGroups                // by Namespace
	exceptions persistent.Map[string, exceptionSet] // by the ID of the policy
}

// exceptionSet is the exceptions of one policy, by ID.
type exceptionSet = persistent.Map[string, *plan.Exception]

// preparer makes prepared snapshots. It is not safe for concurrent use.
type preparer struct {
	series *series.Set
	floods flood.Limits
	now    func() time.Time // the clock by which exceptions end
}

// snapshotUpdate makes a prepared snapshot out of an earlier one.
type snapshotUpdate struct {
	*preparedSnapshot
	*preparer

	changed map[string]*policy // policies whose plan or exceptions have changed, by ID; nil for one that does not exist
	removed []*policy          // policies of the earlier prepared snapshot, also ones whose plan has changed
}

// next prepares a snapshot. It also returns the policies of the previous one that are not in it. Unchanged plans keep
// their prepared policy, and Namespaces with unchanged key groups their keys. previous may be nil. The cost is
// proportional to the number of changes.
func (m *preparer) next(snapshot *index.Snapshot, previous *preparedSnapshot) (next *preparedSnapshot, removed []*policy) {
	previous = cmp.Or(previous, &preparedSnapshot{})
	u := snapshotUpdate{preparer: m, changed: map[string]*policy{}, preparedSnapshot: &preparedSnapshot{
		snapshot: snapshot, policies: previous.policies, groups: previous.groups, exceptions: previous.exceptions,
	}}
	if previous.snapshot == nil || !snapshot.HasGroupsOf(previous.snapshot) {
		u.groups = newKeyGroups(snapshot, previous.groups)
	}
	for id, change := range snapshot.ChangedPlans(previous.snapshot) {
		u.replace(id, change)
	}
	for id, change := range snapshot.ChangedExceptions(previous.snapshot) {
		u.replaceException(id, change)
	}
	for id, p := range u.changed {
		u.setExceptions(id, p)
	}
	return u.preparedSnapshot, u.removed
}

// replace prepares the changed plan.
func (u *snapshotUpdate) replace(id string, plans persistent.Change[*plan.Plan]) {
	before := u.policies.Get(plans.Before)
	if before != nil {
		u.policies = u.policies.Without(plans.Before)
		u.removed = append(u.removed, before)
	}
	if plans.After == nil {
		return
	}
	p := newPolicy(id, plans.After)
	p.series = u.series.Add(plans.After)
	p.newKeys, p.ids = p.newBudget(before, u.floods), newIDBudget(before, u.floods)
	u.policies = u.policies.With(plans.After, p)
	u.changed[id] = p
}

// replaceException gives the exception to its policy.
func (u *snapshotUpdate) replaceException(id string, exceptions persistent.Change[*plan.Exception]) {
	if e := exceptions.Before; e != nil {
		u.setExceptionsOf(e.PolicyID(), u.exceptions.Get(e.PolicyID()).Without(id))
	}
	if e := exceptions.After; e != nil {
		u.setExceptionsOf(e.PolicyID(), u.exceptions.Get(e.PolicyID()).With(id, e))
	}
}

func (u *snapshotUpdate) setExceptionsOf(policy string, all exceptionSet) {
	if all.Len() == 0 {
		u.exceptions = u.exceptions.Without(policy)
	} else {
		u.exceptions = u.exceptions.With(policy, all)
	}
	u.changed[policy] = u.policies.Get(u.snapshot.Lookup(policy))
}

// setExceptions gives the policy, which may be nil, its exceptions. A policy that the previous snapshot has, too, uses them at
// once.
func (u *snapshotUpdate) setExceptions(id string, p *policy) {
	if p == nil {
		return
	}
	var all []*plan.Exception
	for _, e := range u.exceptions.Get(id).All() {
		all = append(all, e)
	}
	p.exceptions.Store(newExceptions(p.plan, all, p.exceptions.Load(), u.now))
}

// isCurrent reports whether the prepared snapshot has the policy that stores know as p.
func (v *preparedSnapshot) isCurrent(p *store.Policy) bool {
	current, err := v.policyOf(p.ID())
	return err == nil && p.IsVariantOf(current.base.stored)
}

// policyOf returns the policy with the ID, or a *limiter.UnknownPolicyError.
func (v *preparedSnapshot) policyOf(id string) (*policy, error) {
	if p := v.policies.Get(v.snapshot.Lookup(id)); p != nil {
		return p, nil
	}
	return nil, &limiter.UnknownPolicyError{Policy: id}
}
