// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The keys of the entries that make the hits of a descriptor a reservation or its commit. The value is
// the ID of the reservation.
const (
	entryReservation = "weir_reservation"
	entryCommit      = "weir_commit"
)

// entryResponseCode is the key of the entry with the status of the response, for the commit of a policy that computes
// its cost from it. Envoy sets it to 0 if there is no response.
const entryResponseCode = "weir_response_code"

// The keys of the entries that name the route, as a plan.Target, and the Gateway, as "<namespace>/<name>" and perhaps
// "/<listener>", that the request came through.
const (
	entryRoute   = "weir_route"
	entryGateway = "weir_gateway"
)

// takeEntries removes the entries about a reservation, a response and targets from the i-th descriptor, so that
// policies do not match them. It returns a *limiter.FieldError if the request names several
// reservations or responses, or for a code or a target of another form.
func (r *request) takeEntries(entries plan.Descriptor, d *descriptor, i int) (plan.Descriptor, error) {
	kept := 0
	for j := range entries {
		taken, err := r.takeEntry(&entries[j], d, i)
		if err != nil {
			return nil, err
		}
		if taken {
			continue
		}
		if kept < j {
			entries[kept] = entries[j]
		}
		kept++
	}
	return slices.Clip(entries[:kept]), nil
}

// takeEntry takes the entry of the i-th descriptor if it is about a reservation, a response or a target, and reports whether it is.
func (r *request) takeEntry(e *plan.Entry, d *descriptor, i int) (taken bool, err error) {
	switch e.Key {
	case entryReservation:
		return true, r.takeReservation(e.Value, limiter.HitsReserve, d, i)
	case entryCommit:
		return true, r.takeReservation(e.Value, limiter.HitsCommit, d, i)
	case entryResponseCode:
		return true, r.takeResponseCode(e.Value, i)
	case entryRoute:
		return true, r.takeTarget(e, i, plan.ParseTarget)
	case entryGateway:
		return true, r.takeTarget(e, i, plan.ParseGateway)
	}
	return false, nil
}

func (r *request) takeReservation(id string, action limiter.HitsAction, d *descriptor, i int) error {
	id = limiter.EnvoyIDPrefix + id
	if r.action == limiter.HitsCheck {
		r.action, r.reservationID = action, id
	}
	if action != r.action || id != r.reservationID {
		return &limiter.FieldError{Field: limiter.DescriptorField(i), Problem: "conflicts with an earlier entry: all entries must name the same reservation and action"}
	}
	d.action = action
	return nil
}

func (r *request) takeResponseCode(value string, i int) error {
	code, err := strconv.ParseUint(value, 10, 32)
	switch {
	case err != nil || code > plan.MaxResponseCode:
		return &limiter.FieldError{Field: fieldOf(i, entryResponseCode), Problem: fmt.Sprintf("must be 0..%d", plan.MaxResponseCode)}
	case r.hasResponseCode && int(code) != r.responseCode:
		return &limiter.FieldError{Field: fieldOf(i, entryResponseCode), Problem: "differs from an earlier entry"}
	}
	r.responseCode, r.hasResponseCode = int(code), true
	return nil
}

func (r *request) takeTarget(e *plan.Entry, i int, parse func(text string) (plan.Target, error)) error {
	t, err := parse(e.Value)
	switch {
	case err != nil:
		return &limiter.FieldError{Field: fieldOf(i, e.Key), Problem: err.Error()}
	case slices.Contains(r.targets, t):
		return nil
	case len(r.targets) == plan.MaxTargets:
		return &limiter.FieldError{Field: fieldOf(i, e.Key), Problem: fmt.Sprintf("is one of more than %d targets", plan.MaxTargets)}
	}
	r.targets = append(r.targets, t)
	return nil
}
