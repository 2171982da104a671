// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// at returns an admitted call of one unit from start to end, in milliseconds.
func at(start, end int, edits ...func(*record)) record {
	origin := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	r := record{
		start: origin.Add(time.Duration(start) * time.Millisecond), end: origin.Add(time.Duration(end) * time.Millisecond),
		cost: 1, allowed: true,
	}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func denied(r *record)           { r.allowed = false }
func open(r *record)             { r.degraded = "open" }
func lost(r *record)             { r.failed = true }
func sliced(r *record)           { r.fromSlice = true }
func costing3(r *record)         { r.cost = 3 }
func calls(r ...record) []record { return r }

// The checker finds what is wrong in wrong histories, and nothing in right ones. The quota is two
// in a window of 100 ms.
func TestChecker(t *testing.T) {
	for name, tc := range map[string]struct {
		records []record
		over    int64
	}{
		"nothing":                           {nil, 0},
		"the quota":                         {calls(at(0, 1), at(1, 2)), 0},
		"one more":                          {calls(at(0, 1), at(1, 2), at(2, 3)), 1},
		"one more, at once":                 {calls(at(0, 9), at(0, 9), at(0, 9)), 1},
		"one more at the end of the window": {calls(at(0, 1), at(1, 2), at(98, 99)), 1},
		"in the next window":                {calls(at(0, 1), at(1, 2), at(100, 101)), 0},
		"perhaps in the next window":        {calls(at(0, 1), at(1, 2), at(98, 100)), 0},
		"a slow call that began early":      {calls(at(0, 150), at(1, 2), at(2, 3), at(4, 5)), 1},
		"a larger cost":                     {calls(at(0, 1, costing3)), 1},
		"a denial":                          {calls(at(0, 1), at(1, 2), at(2, 3, denied)), 0},
		"an admission without Redis":        {calls(at(0, 1), at(1, 2), at(2, 3, open)), 0},
		"a call without an answer":          {calls(at(0, 1), at(1, 2), at(2, 3, lost)), 0},
		"two windows, both wrong":           {calls(at(0, 1), at(1, 2), at(2, 3), at(200, 201), at(201, 202), at(202, 203), at(203, 204)), 2},
		"over the edge of aligned windows":  {calls(at(60, 61), at(90, 91), at(110, 111)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(overAdmitted(tc.records, 2, 100*time.Millisecond)).To(Equal(tc.over))
		})
	}
}
