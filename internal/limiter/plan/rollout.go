// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"time"
)

// ErrOlderGeneration means that a newer generation of the same object was published.
var ErrOlderGeneration = errors.New("a newer generation was published")

// Rollout is how far one record has got: from the leader into the registry, and
// from there to the replicas. It holds no counts, so that a replica that joins or
// leaves changes it only if the status of the object changes too.
type Rollout struct {
	// Reachable is true while Redis answers.
	Reachable bool

	// OwnedElsewhere is true while another installation owns the registry.
	OwnedElsewhere bool

	// Record is the record with the ID in the registry, or nil. While Redis does not answer
	// it is the last known record. A key group is an Outline.
	Record Record

	// OverBudget is why the newest desired record has no room in the registry, or nil. Record then
	// remains the last one that had.
	OverBudget *OverBudget

	// ReplicasTooOld is true while a live replica cannot decode the record: it is of an earlier release.
	ReplicasTooOld bool

	// HasReplicas is true while at least one replica is alive.
	HasReplicas bool

	// AllReplicasCurrent is true while at least one replica is alive, and every live one
	// decides by Record.
	AllReplicasCurrent bool
}

// Plan returns the plan in the registry, or nil. The ID must be a plan's.
func (r Rollout) Plan() *Plan {
	p, _ := r.Record.(*Plan)
	return p
}

// SetOptions describe the object of a record that is to be published.
type SetOptions struct {
	// Restored permits a generation that is lower than the last one of the same object, as
	// after a restore of etcd. The caller has read it uncached.
	Restored bool
	// Created is when the object was created. If room is short, the oldest object has it first.
	Created time.Time
	// WasProgrammed means that the registry has held this record before. It needs no room in a
	// budget, so that a lost registry is restored completely.
	WasProgrammed bool
	// DropLast means that the last record of the ID must not stay if there is no room for this
	// one.
	DropLast bool
}

// MaxUnready is the largest number of policies in Unready.
const MaxUnready = 100

// Unready are the policies that are not Ready.
type Unready struct {
	// Count is their number, Policies the first MaxUnready of them by ID.
	Count    int             `json:"count"`
	Policies []UnreadyPolicy `json:"policies,omitempty"`
}

// UnreadyPolicy is a policy that is not Ready.
type UnreadyPolicy struct {
	// ID is "<namespace>/<name>".
	ID string `json:"name"`
	// Reason is the reason of the first condition that is not True.
	Reason string `json:"reason"`
}
