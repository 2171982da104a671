// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"

	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/publishertest"
)

// The contract tests the whole Publisher.
var _ = func(r publishertest.Registry) controller.Publisher { return r }

// TestFakeRegistry proves that the specs run on a faithful registry.
func TestFakeRegistry(t *testing.T) {
	publishertest.Run(t, func(testing.TB) publishertest.Registry {
		r := newRegistry()
		r.change(func(r *registry) {
			r.lost = true
			clear(r.replicas)
		})
		return &faultyRegistry{r}
	})
}

// faultyRegistry puts the fake into the states of the contract.
type faultyRegistry struct{ *registry }

func (r *faultyRegistry) BeginTerm() { r.beginTerm() }

func (r *faultyRegistry) Hang() { r.change(func(r *registry) { r.hung = true }) }

func (r *faultyRegistry) Recover() {
	r.change(func(r *registry) { r.hung, r.unreachable, r.unobserved = false, false, false })
}

func (r *faultyRegistry) TakeOver() { r.change(func(r *registry) { r.ownedElsewhere = true }) }

func (r *faultyRegistry) GiveBack() { r.change(func(r *registry) { r.ownedElsewhere = false }) }

func (r *faultyRegistry) Fill() {
	r.change(func(r *registry) { r.shortage = &plan.OverBudget{Unit: plan.UnitBytes, Needed: 1} })
}

func (r *faultyRegistry) MakeRoom() { r.change(func(r *registry) { r.shortage = nil }) }

func (r *faultyRegistry) AddReplica() {
	r.change(func(r *registry) { r.replicas["one"] = replica{} })
}

func (r *faultyRegistry) RemoveReplica() { r.change(func(r *registry) { clear(r.replicas) }) }
