// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"
)

// Percentile returns the time within which a share of the calls, from 0 to 1, was answered; 0 without calls.
func Percentile(calls []Call, share float64) time.Duration {
	if len(calls) == 0 {
		return 0
	}
	took := make([]time.Duration, len(calls))
	for i, c := range calls {
		took[i] = c.Replied.Sub(c.Sent)
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(share*float64(len(took))))]
}

// Counts is how many calls ended in which way.
type Counts struct{ Admitted, Denied, Failed int }

// Count counts the calls by how they ended.
func Count(calls []Call) (n Counts) {
	for _, c := range calls {
		switch {
		case c.Failed:
			n.Failed++
		case c.Admitted:
			n.Admitted++
		default:
			n.Denied++
		}
	}
	return n
}
