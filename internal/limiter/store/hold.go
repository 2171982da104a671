// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
	"time"
)

// A hold is the estimate of a reservation, for one key of one policy. Its units are not spent, but
// leave no room for others, until it is committed or ends.

// Action is what an entry of a call does with its cost. The entries of a call either all have
// the actions Check and Reserve, or all have others; such a call is never denied, and in a Redis
// Cluster each of its keys is changed by itself. It must not have requested limits, see
// Policy.NewRequested.
type Action int

// The actions.
const (
	// Check spends the cost if the call is admitted.
	Check Action = iota
	// Reserve holds the cost for Entry.TTL if the call is admitted. If the key has an open hold with
	// the ID already, the call repeats an earlier one: it is admitted without spending anything,
	// and takes only the holds that are missing.
	Reserve
	// Commit ends the hold with the ID and spends the cost, which may be 0. Without an open hold
	// it changes nothing. If it spends units and a limit is full then, a policy that BlocksOnCommit starts the
	// block of the limit, unless one is live.
	Commit
	// CommitOrCharge is a Commit if the key has an open hold with the ID, and otherwise a Charge. The ID
	// of a hold that has ended is remembered, since its estimate has been spent.
	CommitOrCharge
	// Renew moves the end of the open hold with the ID to Entry.TTL from now.
	Renew
	// Charge spends the cost. With an ID it does so once in the time of MemoryOf.
	Charge
	// TakeSlice takes a hold with the ID for Entry.TTL, of at most the cost, see Slices. If the hold is open already,
	// the call repeats an earlier one and changes nothing.
	TakeSlice
)

// Slices are the rules by which replicas take slices. A slice is a hold of units of a key that one replica spends by
// itself, and commits. The zero value allows none.
//
// A slice has at most the cost of its TakeSlice, and half of what is free: of every limit, and of what all slices of the
// key may hold, MaxPercent of the smallest quota. It has at least SmallestSlice units, so that the last units of
// a quota are decided one by one. The last slice that slices have room for may have more than half of this room.
type Slices struct {
	// MaxPercent is the most that all slices of a key hold, in percent of the smallest quota, 1 to 50.
	MaxPercent int64
	// MaxAge is how long a replica may spend from a slice.
	MaxAge time.Duration
}

// SmallestSlice is the smallest number of units of a slice.
const SmallestSlice = 8

// Allowed reports whether replicas may take slices.
func (s Slices) Allowed() bool { return s.MaxPercent > 0 }

// ChargeMemory is how long the ID of a charge is remembered, and StreamMemory how long one that begins with StreamPrefix is:
// the ID of a stream of Envoy. That is twice as long as Weir repeats calls of Envoy.
const (
	ChargeMemory = 10 * time.Minute
	StreamMemory = 2 * time.Minute
	StreamPrefix = "envoy:"
)

// MemoryOf returns how long the ID of a charge is remembered.
func MemoryOf(id string) time.Duration {
	if strings.HasPrefix(id, StreamPrefix) {
		return StreamMemory
	}
	return ChargeMemory
}

// MostSettled bounds the ended holds of a key that one call spends. A call may cover 16 policies with 64 limits:
// to spend 64 holds in each took Redis 13 ms.
const MostSettled = 8

// HoldOutcome is what an entry did with a hold, or with the ID of a charge.
type HoldOutcome int

// The outcomes.
const (
	// HoldNone is the outcome of a Check, of a denied Reserve and of a Charge that spent its cost.
	HoldNone HoldOutcome = iota
	// HoldTaken means that the call took the hold. After a TakeSlice, EntryReply.Estimate has its units.
	HoldTaken
	// HoldFound means that the hold was open. A Commit has ended it, a Renew has moved its end, a
	// Reserve has left it unchanged.
	HoldFound
	// HoldMissing means that a Commit or a Renew found no open hold, or that the ID of a Charge
	// was remembered. Nothing has changed.
	HoldMissing
	// HoldsFull means that a Reserve was denied because as many holds are open as the policy allows, or
	// because an earlier hold with its ID has ended and is not spent yet; or that a TakeSlice found too few free
	// units, a block, or such an earlier hold.
	HoldsFull
)

// Hold is one open hold of a key.
type Hold struct {
	ID    string
	Units int64
	// EndsIn is the time until the hold ends.
	EndsIn time.Duration
}

// Remembers reports whether the entry remembers its ID as the ID of a charge: a repeat could spend again.
func (e *Entry) Remembers() bool {
	return e.ID != "" && e.Cost > 0 && !e.Forgets && (e.Action == Charge || e.Action == CommitOrCharge)
}

// IsDeniable reports whether the call has the actions Check and Reserve.
func (c *Call) IsDeniable() bool { return len(c.Entries) == 0 || c.Entries[0].Action <= Reserve }
