// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "math"

// minLateCharge is the smallest number of hits that may be a charge.
const minLateCharge = 2

// LateCharges makes large hits of Envoy's rate limit service charges, which are spent whatever the
// limits admit. The zero value makes none.
type LateCharges struct {
	// From is the smallest number of hits that is a charge.
	From int64 `json:"from"`
}

// Include reports whether so large a number of hits is a charge.
func (l LateCharges) Include(hits int64) bool { return l.From > 0 && hits >= l.From }

func (p *Plan) validateLateCharges(fail func(string, ...any)) {
	from := p.LateCharges.From
	if from != 0 && (from < minLateCharge || from > math.MaxInt32) {
		fail("lateCharges.from %d is out of bounds", from)
	}
}
