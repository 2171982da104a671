// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Sighting is evidence that a check has applied to a policy.
type Sighting struct {
	// Policy is the ID of the policy.
	Policy string
	// Selectors is Plan.Selectors of the plan that the replica had.
	Selectors string
	// Target is the target of the policy that selected the request, "" if the policy has none or the
	// check names the policy.
	Target Target
	// At is when a replica reported it, in milliseconds of the time of Redis.
	At time.Time
}

// Identity is one life of a policy: a policy that is created again under its name has another UID.
type Identity struct{ ID, UID string }

// DenialReport is the report of a replica that a policy denies requests.
type DenialReport struct {
	Identity

	// At is when a replica reported it last, in milliseconds of the time of Redis.
	At time.Time
}

// selectorBytes is the length of the hash in Selectors. It detects edits, not attacks.
const selectorBytes = 12

// Selectors returns a hash of what selects the requests of the plan, and of its UID: equal for two
// generations of a policy that select the same requests.
func (p *Plan) Selectors() string {
	encoded, err := json.Marshal(struct {
		UID     string
		Matches []Match
	}{p.UID, p.Matches})
	if err != nil {
		panic(err) // these types encode
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:selectorBytes])
}
