// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

// Budget bounds the plans in the registry, so that no tenant exhausts the memory of the
// replicas. 0 is unlimited.
type Budget struct {
	// Bytes is the size of the encoded plans.
	Bytes int
	// Policies is their number.
	Policies int
}

// Usage is the part of a Budget that is used.
type Usage struct {
	Bytes, Policies int
}

// Add adds the change to the usage.
func (u *Usage) Add(change Usage) {
	u.Bytes += change.Bytes
	u.Policies += change.Policies
}

// Budgets are the budget of each Namespace and the budget of all together.
type Budgets struct {
	Namespace, Total Budget
}

// OverBudget is why a plan is not in the registry: it would need more of a budget than is
// left.
type OverBudget struct {
	// Scope is the name of a Namespace, or "" for all policies.
	Scope string
	// Unit is what is short: UnitBytes or UnitPolicies.
	Unit string
	// Needed is how many units the plan needs in addition, Used how many are used without it,
	// Limit how many there are.
	Needed, Used, Limit int
}

// Units of a Budget.
const (
	UnitBytes    = "bytes of plans"
	UnitPolicies = "policies"
)

// String describes the shortage.
func (o *OverBudget) String() string {
	whose := "All policies use"
	if o.Scope != "" {
		whose = "The policies of the Namespace use"
	}
	return fmt.Sprintf("%s %d of %d %s, and this one needs %d more", whose, o.Used, o.Limit, o.Unit, o.Needed)
}

// Shortage returns why a change of the usage of a Namespace does not fit, or nil. Only growth
// is rejected: a budget that has been lowered, or that others have used up, rejects no plan that
// is in the registry.
func (b *Budgets) Shortage(namespace string, change, used, total Usage) *OverBudget {
	for _, check := range []OverBudget{
		{Scope: namespace, Unit: UnitPolicies, Needed: change.Policies, Used: used.Policies, Limit: b.Namespace.Policies},
		{Scope: namespace, Unit: UnitBytes, Needed: change.Bytes, Used: used.Bytes, Limit: b.Namespace.Bytes},
		{Unit: UnitPolicies, Needed: change.Policies, Used: total.Policies, Limit: b.Total.Policies},
		{Unit: UnitBytes, Needed: change.Bytes, Used: total.Bytes, Limit: b.Total.Bytes},
	} {
		if check.Needed > 0 && check.Limit > 0 && check.Used+check.Needed > check.Limit {
			return &check
		}
	}
	return nil
}
