// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls

import (
	"fmt"
	"time"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// toCheck returns the check that the request asks for, in memory of the request. It returns
// a *limiter.FieldError for the first invalid field.
func (r *request) toCheck() (*limiter.Check, error) {
	switch {
	case r.domain == "":
		return nil, &limiter.FieldError{Field: "domain", Problem: "must not be empty"}
	case r.count == 0:
		return nil, &limiter.FieldError{Field: "descriptors", Problem: "must not be empty"}
	case r.count > limiter.MaxDescriptors:
		return nil, &limiter.FieldError{Field: "descriptors", Problem: fmt.Sprintf("has %d elements, at most %d", r.count, limiter.MaxDescriptors)}
	}
	// Hits point to their limit, so the limits must not move.
	if cap(r.limits) < r.countLimits() {
		r.limits = make([]limiter.RequestedLimit, 0, r.count)
	}
	start := 0
	for i := range r.descriptors {
		d := &r.descriptors[i]
		entries, err := r.takeEntries(r.entries[start:d.end:d.end], d, i)
		if err != nil {
			return nil, err
		}
		hits, err := r.hitsOf(d, i)
		if err != nil {
			return nil, err
		}
		r.allHits = append(r.allHits, hits)
		r.lists = append(r.lists, entries)
		start = d.end
	}
	r.check = limiter.Check{
		Attributes: plan.Attributes{Domain: r.domain, Descriptors: r.lists},
		Hits:       r.allHits, ReservationID: r.reservationID, ResponseCode: r.responseCode,
		Memory: r.decision,
	}
	if len(r.targets) > 0 {
		r.check.Attributes.Targets = r.targets
	}
	return &r.check, nil
}

func (r *request) countLimits() (n int) {
	for i := range r.descriptors {
		if r.descriptors[i].hasLimit {
			n++
		}
	}
	return n
}

// hitsOf returns the hits of the i-th descriptor: its own hits, or else the hits of the
// request. On the request, 0 is the default and means 1.
func (r *request) hitsOf(d *descriptor, i int) (limiter.Hits, error) {
	hits := limiter.Hits{Cost: max(1, int64(r.hits)), Action: d.action}
	switch {
	case d.negative:
		// A client that could return units could spend without end.
		return hits, &limiter.FieldError{Field: fieldOf(i, "is_negative_hits"), Problem: "is not supported"}
	case d.hits > plan.MaxCost:
		return hits, tooManyHits(fieldOf(i, "hits_addend"))
	case d.hasHits: // 0 hits peek whether one unit would be admitted
		hits.Cost, hits.Peek = max(1, int64(d.hits)), d.hits == 0
	}
	if hits.Peek && d.action == limiter.HitsCommit {
		hits.Cost, hits.Peek = 0, false // it cancels the reservation
	}
	if d.hasLimit {
		r.limits = append(r.limits, limiter.RequestedLimit{Units: int64(d.units), Window: windowOf(d.unit)})
		hits.Limit = &r.limits[len(r.limits)-1]
	}
	return hits, nil
}

func fieldOf(i int, name string) string { return limiter.DescriptorField(i) + "." + name }

func tooManyHits(field string) error {
	return &limiter.FieldError{Field: field, Problem: fmt.Sprintf("must be at most %d", plan.MaxCost)}
}

// windowOf returns the window of a typev3.RateLimitUnit. It is 0 for MONTH and YEAR, which
// are longer than any window, and for unknown units. That matches no limit of a policy; the
// engine ignores the limit and counts it.
func windowOf(unit int32) time.Duration {
	switch typev3.RateLimitUnit(unit) {
	case typev3.RateLimitUnit_SECOND:
		return time.Second
	case typev3.RateLimitUnit_MINUTE:
		return time.Minute
	case typev3.RateLimitUnit_HOUR:
		return time.Hour
	case typev3.RateLimitUnit_DAY:
		return 24 * time.Hour
	default:
		return 0
	}
}
