// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
)

// Budget bounds the records in the registry, so that no tenant exhausts the memory of the
// replicas. 0 is unlimited.
type Budget struct {
	// Bytes is the heap of the plans in a replica, as UsageOf estimates it.
	Bytes int
	// Policies is the number of plans.
	Policies int
	// KeyBytes is the heap of the key groups.
	KeyBytes int
	// Exceptions is the number of exceptions.
	Exceptions int
	// ExceptionBytes is the heap of the exceptions.
	ExceptionBytes int
}

// Usage is the part of a Budget that is used.
type Usage Budget

// Add adds the change to the usage.
func (u *Usage) Add(change Usage) {
	u.Bytes += change.Bytes
	u.Policies += change.Policies
	u.KeyBytes += change.KeyBytes
	u.Exceptions += change.Exceptions
	u.ExceptionBytes += change.ExceptionBytes
}

// Minus returns the usage without the other one.
func (u *Usage) Minus(other Usage) Usage {
	return Usage{
		Bytes: u.Bytes - other.Bytes, Policies: u.Policies - other.Policies,
		KeyBytes: u.KeyBytes - other.KeyBytes, Exceptions: u.Exceptions - other.Exceptions,
		ExceptionBytes: u.ExceptionBytes - other.ExceptionBytes,
	}
}

// Released reports whether the change makes any unit free.
func (u *Usage) Released() bool {
	return slices.ContainsFunc(u.Parts(), func(p Part) bool { return p.N < 0 })
}

// Budgets are the budget of each Namespace and the budget of all together.
type Budgets struct {
	Namespace, Total Budget
}

// OverBudget is why a record is not in the registry: it would need more of a budget than is
// left.
type OverBudget struct {
	// Scope is the name of a Namespace, or "" for all together.
	Scope string
	// Unit is what is short.
	Unit Unit
	// Needed is how many units the record needs in addition, Used how many are used without it,
	// Limit how many there are.
	Needed, Used, Limit int
}

// Unit is what a Budget counts, in words.
type Unit string

// The units of a Budget.
const (
	UnitBytes          Unit = "bytes of memory for plans"
	UnitPolicies       Unit = "policies"
	UnitKeyBytes       Unit = "bytes of memory for keys"
	UnitExceptions     Unit = "live exceptions"
	UnitExceptionBytes Unit = "bytes of memory for exceptions"
)

// usedBy returns the objects that use the unit.
func (u Unit) usedBy() string {
	switch u {
	case UnitKeyBytes:
		return "key groups"
	case UnitExceptions, UnitExceptionBytes:
		return "exceptions"
	default:
		return "policies"
	}
}

// String describes the shortage.
func (o *OverBudget) String() string {
	whose := "All " + o.Unit.usedBy() + " use"
	if o.Scope != "" {
		whose = "The " + o.Unit.usedBy() + " of the Namespace use"
	}
	return fmt.Sprintf("%s %d of %d %s, and this one needs %d more", whose, o.Used, o.Limit, o.Unit, o.Needed)
}

// Shortage returns why a change of the usage of a Namespace does not fit, or nil. Only growth
// is rejected: a budget that has been lowered, or that others have used up, rejects no record that
// is in the registry.
func (b *Budgets) Shortage(namespace string, change, used, total Usage) *OverBudget {
	for _, scope := range []struct {
		name   string
		used   Usage
		budget Budget
	}{{namespace, used, b.Namespace}, {"", total, b.Total}} {
		needed, used := change.Parts(), scope.used.Parts()
		budget := Usage(scope.budget)
		for i, limit := range budget.Parts() {
			short := OverBudget{Scope: scope.name, Unit: limit.unit, Needed: needed[i].N, Used: used[i].N, Limit: limit.N}
			if short.Needed > 0 && short.Limit > 0 && short.Used+short.Needed > short.Limit {
				return &short
			}
		}
	}
	return nil
}

// Part is the number of one unit.
type Part struct {
	// Resource is the name of the unit in metrics.
	Resource string
	unit     Unit
	N        int
}

// Parts returns the numbers of the units, the numbers of objects first.
func (u *Usage) Parts() []Part {
	return []Part{
		{"policies", UnitPolicies, u.Policies},
		{"bytes", UnitBytes, u.Bytes},
		{"exceptions", UnitExceptions, u.Exceptions},
		{"exception_bytes", UnitExceptionBytes, u.ExceptionBytes},
		{"key_bytes", UnitKeyBytes, u.KeyBytes},
	}
}
