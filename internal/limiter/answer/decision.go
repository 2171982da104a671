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
}

// LimitState is one limit of a decision, or of a key, as JSON.
type LimitState struct {
	Policy                string `json:"policy"`
	Limit                 string `json:"limit"`
	Override              string `json:"override,omitempty"`
	Allowed               bool   `json:"allowed"`
	Used                  int64  `json:"used"`
	Threshold             int64  `json:"threshold"`
	Remaining             int64  `json:"remaining"`
	RetryAfterMs          waitMs `json:"retryAfterMs,omitzero"`
	RemainingAfterWaiting int64  `json:"remainingAfterWaiting"`
	ResetAfterMs          int64  `json:"resetAfterMs"`
	Shadow                bool   `json:"shadow"`
	SuppressionFactor     share  `json:"suppressionFactor,omitzero"`
}

// share is a fraction, 0..1. Negative values are left out: the limit has no share.
type share float64

// IsZero makes encoding/json leave the member out.
func (s share) IsZero() bool { return s < 0 }

// waitMs is a time to wait in milliseconds. Negative values, which mean that waiting does
// not help, are left out.
type waitMs int64

// IsZero makes encoding/json leave the member out.
func (w waitMs) IsZero() bool { return w < 0 }

// denialBody is a denial as JSON: a problem document with the members of a decision.
type denialBody struct {
	Problem
	DecisionBody
}

// fill copies the decision into the body.
func (b *DecisionBody) fill(d *limiter.Decision) {
	b.Allowed, b.Reason, b.Revision = d.Allowed, d.Reason, d.Revision
	b.Policy, b.Limit, b.Override = d.Policy, d.Limit, d.Override
	for i := range d.Limits {
		b.Limits = append(b.Limits, LimitStateOf(&d.Limits[i]))
	}
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
		Allowed:               l.Allowed,
		Used:                  l.Used,
		Threshold:             l.Threshold,
		Remaining:             l.Remaining,
		RetryAfterMs:          wait,
		RemainingAfterWaiting: l.RemainingAfterWaiting,
		ResetAfterMs:          RoundUp(l.ResetAfter, time.Millisecond),
		Shadow:                l.Shadow,
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
