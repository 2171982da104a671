// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The keys of the entries that make the hits of a descriptor a reservation or its commit. The value is
// the ID of the reservation.
const (
	entryReservation = "weir_reservation"
	entryCommit      = "weir_commit"
)

// takeReservation removes the entries about a reservation from the i-th descriptor, so that
// policies do not match them. It returns a *limiter.FieldError if the request names several
// reservations.
func (r *request) takeReservation(entries plan.Descriptor, d *descriptor, i int) (plan.Descriptor, error) {
	kept := 0
	for j := range entries {
		action := actionOf(entries[j].Key)
		if action == limiter.HitsCheck {
			if kept < j {
				entries[kept] = entries[j]
			}
			kept++
			continue
		}
		id := entries[j].Value
		if r.action == limiter.HitsCheck {
			r.action, r.reservationID = action, id
		}
		if action != r.action || id != r.reservationID {
			return nil, &limiter.FieldError{Field: limiter.DescriptorField(i), Problem: "names another reservation than an earlier entry, or another action"}
		}
		d.action = action
	}
	return slices.Clip(entries[:kept]), nil
}

func actionOf(key string) limiter.HitsAction {
	switch key {
	case entryReservation:
		return limiter.HitsReserve
	case entryCommit:
		return limiter.HitsCommit
	}
	return limiter.HitsCheck
}
