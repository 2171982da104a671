// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// heldPolicies are the holds of a reservation, with the operations on the holds of policies that still exist.
type heldPolicies struct {
	holds []limiter.Hold
	*operations
	// places[i] is the place of holds[i] in the operations, or one of those below.
	places   []int
	revision int64
}

const (
	policyGone  = -1 // the policy has no plan
	nothingHeld = -2 // the policy has no hold, and nothing to spend
)

// findHolds returns the holds of the reservation, with the limits that are now in force. entryOf
// returns what the call does with the hold of a policy; false leaves it out.
func (v *activeView) findHolds(
	r *limiter.Reservation, entryOf func(*policy, *limiter.Hold) (quota.Entry, bool),
) (*heldPolicies, error) {
	h := &heldPolicies{holds: r.Holds, operations: newOperations(), revision: v.snapshot.Revision()}
	for i := range r.Holds {
		hold := &r.Holds[i]
		p := v.policies[v.snapshot.Lookup(hold.Policy)]
		if p == nil {
			h.places = append(h.places, policyGone)
			continue
		}
		key, ok := p.keyOfTexts(hold.Key)
		if !ok || h.has(p, key) {
			return nil, invalidReservation(fmt.Sprintf("has holds[%d].key, which is no key of %s or is there twice", i, p.id))
		}
		entry, needed := entryOf(p, hold)
		if !needed {
			h.places = append(h.places, nothingHeld)
			continue
		}
		entry.ID, entry.Key = r.ID, key
		h.addHeld(p, p.variantOf(hold.Override), entry)
	}
	return h, nil
}

func invalidReservation(problem string) error {
	return &limiter.FieldError{Field: "reservation", Problem: problem}
}

// has reports whether there is an operation for the policy and the key.
func (h *heldPolicies) has(p *policy, key quota.Key) bool {
	for _, op := range h.all() {
		if op.policy == p && op.entry.Key == key {
			return true
		}
	}
	return false
}

func (h *heldPolicies) addHeld(p *policy, v *variant, entry quota.Entry) {
	entry.Policy = v.stored
	h.places = append(h.places, len(h.participants))
	h.add(participant{policy: p, variant: v, selected: v}, entry)
}
