// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"time"
)

// ErrOlderGeneration means that a newer generation of the same policy was published.
var ErrOlderGeneration = errors.New("a newer generation was published")

// Rollout is how far one plan has got: from the leader into the registry, and
// from there to the replicas. It holds no counts, so that a replica that joins or
// leaves changes it only if the status of the policy changes too.
type Rollout struct {
	// Reachable is true while Redis answers.
	Reachable bool

	// OwnedElsewhere is true while another installation owns the registry.
	OwnedElsewhere bool

	// Plan is the plan with the ID in the registry, or nil. While Redis does not answer
	// it is the last known plan.
	Plan *Plan

	// OverBudget is why the newest desired plan has no room in the registry, or nil. Plan then
	// remains the last one that had.
	OverBudget *OverBudget

	// ReplicasTooOld is true while a live replica follows an earlier version of the registry
	// that cannot express the desired plan.
	ReplicasTooOld bool

	// HasReplicas is true while at least one replica is alive.
	HasReplicas bool

	// AllReplicasCurrent is true while at least one replica is alive, and every live one
	// decides by Plan.
	AllReplicasCurrent bool
}

// SetOptions describe the policy of a plan that is to be published.
type SetOptions struct {
	// Restored permits a generation that is lower than the last one of the same policy, as
	// after a restore of etcd. The caller has read it uncached.
	Restored bool
	// Created is when the policy was created. If room is short, the oldest policy has it first.
	Created time.Time
	// WasProgrammed means that the registry has held this plan before. It needs no room in a
	// budget, so that a lost registry is restored completely.
	WasProgrammed bool
	// DropLast means that the last plan of the ID must not stay if there is no room for this
	// one.
	DropLast bool
}
