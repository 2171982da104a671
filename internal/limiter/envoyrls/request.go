// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls

import (
	"fmt"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// checkOf converts the request into a check. It returns a *limiter.FieldError for a
// malformed request.
func checkOf(r *ratelimitv3.RateLimitRequest) (*limiter.Check, error) {
	switch n := len(r.GetDescriptors()); {
	case r.GetDomain() == "":
		return nil, &limiter.FieldError{Field: "domain", Problem: "must not be empty"}
	case n == 0:
		return nil, &limiter.FieldError{Field: "descriptors", Problem: "must not be empty"}
	case n > limiter.MaxDescriptors: // before anything is allocated for them
		return nil, &limiter.FieldError{Field: "descriptors", Problem: fmt.Sprintf("has %d elements, at most %d", n, limiter.MaxDescriptors)}
	}
	hits, err := hitsOf("hits_addend", uint64(r.GetHitsAddend()))
	if err != nil {
		return nil, err
	}
	hits.Peek = false // on the request, 0 is the default and means 1
	check := &limiter.Check{
		Attributes: plan.Attributes{Domain: r.GetDomain(), Descriptors: make([]plan.Descriptor, len(r.GetDescriptors()))},
		Charges:    make([]limiter.Charge, len(r.GetDescriptors())),
	}
	for i, d := range r.GetDescriptors() {
		check.Attributes.Descriptors[i] = descriptorOf(d)
		if check.Charges[i], err = chargeOf(d, hits, i); err != nil {
			return nil, err
		}
	}
	return check, nil
}

func descriptorOf(d *commonv3.RateLimitDescriptor) plan.Descriptor {
	entries := make(plan.Descriptor, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = plan.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	return entries
}

// chargeOf returns the charge of the i-th descriptor: its own hits, or else those of the
// request.
func chargeOf(d *commonv3.RateLimitDescriptor, hits limiter.Charge, i int) (charge limiter.Charge, err error) {
	at := fmt.Sprintf("descriptors[%d]", i)
	if d.GetIsNegativeHits() {
		// A client that could return units could spend without end.
		return charge, &limiter.FieldError{Field: at + ".is_negative_hits", Problem: "is not supported"}
	}
	charge = hits
	if own := d.GetHitsAddend(); own != nil {
		if charge, err = hitsOf(at+".hits_addend", own.GetValue()); err != nil {
			return charge, err
		}
	}
	charge.Limit = requestedLimit(d.GetLimit())
	return charge, nil
}

// hitsOf returns the charge for a number of hits. 0 hits peek whether one unit would be
// admitted.
func hitsOf(field string, hits uint64) (limiter.Charge, error) {
	if hits > plan.MaxThreshold {
		return limiter.Charge{}, &limiter.FieldError{Field: field, Problem: fmt.Sprintf("must be at most %d", plan.MaxThreshold)}
	}
	return limiter.Charge{Cost: max(1, int64(hits)), Peek: hits == 0}, nil
}

// windows maps the units of Envoy to windows. MONTH and YEAR are longer than any window.
var windows = map[typev3.RateLimitUnit]time.Duration{
	typev3.RateLimitUnit_SECOND: time.Second,
	typev3.RateLimitUnit_MINUTE: time.Minute,
	typev3.RateLimitUnit_HOUR:   time.Hour,
	typev3.RateLimitUnit_DAY:    24 * time.Hour,
}

// requestedLimit returns the limit of the descriptor, or nil if it has none. A unit that is
// not in windows matches no limit of a policy; the engine ignores it and counts it.
func requestedLimit(l *commonv3.RateLimitDescriptor_RateLimitOverride) *limiter.RequestedLimit {
	if l == nil {
		return nil
	}
	return &limiter.RequestedLimit{Units: int64(l.GetRequestsPerUnit()), Window: windows[l.GetUnit()]}
}
