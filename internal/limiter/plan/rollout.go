// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "errors"

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

	// ReplicasTooOld is true while a live replica follows an earlier version of the registry
	// that cannot express the desired plan.
	ReplicasTooOld bool

	// HasReplicas is true while at least one replica is alive.
	HasReplicas bool

	// AllReplicasCurrent is true while at least one replica is alive, and every live one
	// decides by Plan.
	AllReplicasCurrent bool
}
