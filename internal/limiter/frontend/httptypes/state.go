// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httptypes

import (
	"net/url"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// KeyState is the answer of GET /v1/state.
type KeyState struct {
	Policy string `json:"policy"`
	// Key is the key in place of the given one, of which an address was brought to its network; nil if
	// the given one was used.
	Key         []string            `json:"key,omitempty"`
	Override    string              `json:"override,omitempty"`
	Group       string              `json:"group,omitempty"`
	Action      plan.Action         `json:"action,omitempty"`
	Exception   *Exception          `json:"exception,omitempty"`
	Blocked     bool                `json:"blocked"`
	BlockedBy   string              `json:"blockedBy,omitempty"`
	BlockLeftMs int64               `json:"blockLeftMs,omitempty"`
	Limits      []answer.LimitState `json:"limits"`
	// OpenReservations is their number, Reservations are those that end first.
	OpenReservations int64       `json:"openReservations,omitempty"`
	Reservations     []HeldUnits `json:"reservations,omitempty"`
	// OpenSlices is the number of slices of the key, Slices are those that end first.
	OpenSlices int64         `json:"openSlices,omitempty"`
	Slices     []SlicedUnits `json:"slices,omitempty"`
	Revision   int64         `json:"revision"`
}

// Exception is an exception in force for a key.
type Exception = limiter.Exception

// HeldUnits is what an open reservation holds.
type HeldUnits struct {
	ID       string `json:"id"`
	Units    int64  `json:"units"`
	EndsInMs int64  `json:"endsInMs"`
}

// SlicedUnits is what the slice of a replica holds.
type SlicedUnits struct {
	Units    int64 `json:"units"`
	EndsInMs int64 `json:"endsInMs"`
}

// Changed is the answer of reset, block and unblock.
type Changed struct {
	// Found is false if there was nothing to change.
	Found bool `json:"found"`
	// Lifted is the number of lifted blocks, if Target.All was set.
	Lifted *int `json:"lifted,omitempty"`
	// Key is as in KeyState.
	Key []string `json:"key,omitempty"`
}

// ConsoleLink is the answer of POST /v1/console.
type ConsoleLink struct {
	// Path is below the address of the operator port.
	Path             string `json:"path"`
	ExpiresInSeconds int    `json:"expiresInSeconds"`
}

// Target names the key of a state call, and is the body of the calls that change one.
type Target struct {
	Policy string   `json:"policy"`
	Key    []string `json:"key,omitempty"`
	// KeyHash is in place of Key.
	KeyHash string `json:"keyHash,omitempty"`
	// AsGiven accepts a key that no request can have.
	AsGiven bool `json:"asGiven,omitempty"`
	// Shared names the requests that lack the empty parts of Key, or every part without Key.
	Shared bool `json:"shared,omitempty"`
	// Duration is the length of a block.
	Duration string `json:"duration,omitempty"`
	// All stands for all listed keys, in place of a key.
	All bool `json:"all,omitempty"`
}

// Query returns the key as parameters of GET /v1/state. The client address and the principal select
// an override; empty ones are left out.
func (t *Target) Query(remoteAddress, principal string) url.Values {
	query := url.Values{"policy": {t.Policy}}
	if len(t.Key) > 0 {
		query["key"] = t.Key
	}
	if t.AsGiven {
		query.Set("asGiven", "true")
	}
	if t.Shared {
		query.Set("shared", "true")
	}
	for name, value := range map[string]string{"keyHash": t.KeyHash, "remoteAddress": remoteAddress, "principal": principal} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}
