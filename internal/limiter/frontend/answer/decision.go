// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// DecisionBody is a decision as JSON.
type DecisionBody struct {
	Allowed  bool           `json:"allowed"`
	Reason   limiter.Reason `json:"reason"`
	Policy   string         `json:"policy"`
	Limit    string         `json:"limit"`
	Override string         `json:"override,omitempty"`
	Limits   []LimitState   `json:"limits"`
	Revision int64          `json:"revision"`
	// WaitsFor is absent unless only reservations or slices leave no room.
	WaitsFor limiter.WaitsFor `json:"waitsFor,omitempty"`
	// FromSlice is absent unless slices decided.
	FromSlice bool `json:"fromSlice,omitempty"`
	// Reservation is the text of the reservation; only a reserve has one.
	Reservation string `json:"reservation,omitempty"`
}

// LimitState is one limit of a decision, or of a key, as JSON.
type LimitState struct {
	Policy                string `json:"policy"`
	Limit                 string `json:"limit"`
	Override              string `json:"override,omitempty"`
	Group                 string `json:"group,omitempty"`
	Exception             string `json:"exception,omitempty"`
	Allowed               bool   `json:"allowed"`
	Used                  int64  `json:"used"`
	Held                  int64  `json:"held,omitempty"`
	Threshold             int64  `json:"threshold"`
	Remaining             int64  `json:"remaining"`
	RetryAfterMs          waitMs `json:"retryAfterMs,omitzero"`
	RemainingAfterWaiting int64  `json:"remainingAfterWaiting"`
	ResetAfterMs          int64  `json:"resetAfterMs"`
	Shadow                bool   `json:"shadow"`
	Overflow              bool   `json:"overflow,omitempty"`
	NearLimit             bool   `json:"nearLimit,omitempty"`
	SuppressionFactor     share  `json:"suppressionFactor,omitzero"`
}

// share is a fraction, 0..1. Negative values are left out: the limit has no share.
type share float64

// IsZero reports whether the member is left out.
func (s share) IsZero() bool { return s < 0 }

// waitMs is a time to wait in milliseconds. Negative values, which mean that waiting does
// not help, are left out.
type waitMs int64

// IsZero reports whether the member is left out.
func (w waitMs) IsZero() bool { return w < 0 }

// fill copies the decision into the body.
func (b *DecisionBody) fill(d *limiter.Decision) {
	b.Allowed, b.Reason, b.Revision = d.Allowed, d.Reason, d.Revision
	b.Policy, b.Limit, b.Override = d.Policy, d.Limit, d.Override
	b.WaitsFor, b.FromSlice = d.WaitsFor, d.FromSlice
	if d.Reservation != nil {
		b.Reservation = d.Reservation.Encode()
	}
	for i := range d.Limits {
		b.Limits = append(b.Limits, LimitStateOf(&d.Limits[i]))
	}
}

// appendTo appends the members to an object that is not closed yet.
func (b *DecisionBody) appendTo(json []byte) []byte {
	json = appendBoolMember(json, "allowed", b.Allowed)
	json = appendStringMember(json, "reason", string(b.Reason))
	json = appendStringMember(json, "policy", b.Policy)
	json = appendStringMember(json, "limit", b.Limit)
	json = appendOptionalMember(json, "override", b.Override)
	json = append(appendName(json, "limits"), '[')
	for i := range b.Limits {
		if i > 0 {
			json = append(json, ',')
		}
		json = append(b.Limits[i].appendTo(append(json, '{')), '}')
	}
	json = appendIntMember(append(json, ']'), "revision", b.Revision)
	json = appendOptionalMember(json, "waitsFor", string(b.WaitsFor))
	if b.FromSlice {
		json = appendBoolMember(json, "fromSlice", true)
	}
	return appendOptionalMember(json, "reservation", b.Reservation)
}

// appendTo appends the members to an object that is not closed yet.
func (l *LimitState) appendTo(json []byte) []byte {
	json = appendStringMember(json, "policy", l.Policy)
	json = appendStringMember(json, "limit", l.Limit)
	json = appendOptionalMember(json, "override", l.Override)
	json = appendOptionalMember(json, "group", l.Group)
	json = appendOptionalMember(json, "exception", l.Exception)
	json = appendBoolMember(json, "allowed", l.Allowed)
	json = appendIntMember(json, "used", l.Used)
	if l.Held != 0 {
		json = appendIntMember(json, "held", l.Held)
	}
	json = appendIntMember(json, "threshold", l.Threshold)
	json = appendIntMember(json, "remaining", l.Remaining)
	if !l.RetryAfterMs.IsZero() {
		json = appendIntMember(json, "retryAfterMs", int64(l.RetryAfterMs))
	}
	json = appendIntMember(json, "remainingAfterWaiting", l.RemainingAfterWaiting)
	json = appendIntMember(json, "resetAfterMs", l.ResetAfterMs)
	json = appendBoolMember(json, "shadow", l.Shadow)
	if l.Overflow {
		json = appendBoolMember(json, "overflow", true)
	}
	if l.NearLimit {
		json = appendBoolMember(json, "nearLimit", true)
	}
	if !l.SuppressionFactor.IsZero() {
		json = appendFraction(appendName(json, "suppressionFactor"), float64(l.SuppressionFactor))
	}
	return json
}

// LimitStateOf returns the state as JSON.
func LimitStateOf(l *limiter.LimitState) LimitState {
	wait := waitMs(-1)
	if l.RetryAfter >= 0 {
		wait = waitMs(RoundUp(l.RetryAfter, time.Millisecond))
	}
	suppression := share(-1)
	if l.Algorithm == plan.Suppressed {
		suppression = share(l.SuppressionFactor)
	}
	return LimitState{
		Policy:                l.Policy,
		Limit:                 l.Limit,
		Override:              l.Override,
		Group:                 l.Group,
		Exception:             l.Exception,
		Allowed:               l.Allowed,
		Used:                  l.Used,
		Held:                  l.Held,
		Threshold:             l.Threshold,
		Remaining:             l.Remaining,
		RetryAfterMs:          wait,
		RemainingAfterWaiting: l.RemainingAfterWaiting,
		ResetAfterMs:          RoundUp(l.ResetAfter, time.Millisecond),
		Shadow:                l.Shadow,
		Overflow:              l.Overflow,
		NearLimit:             l.Near,
		SuppressionFactor:     suppression,
	}
}

// RoundUp returns the duration in whole units, rounded up, so that waiting for it is
// enough.
func RoundUp(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
