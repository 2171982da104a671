// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"slices"
	"sync"
	"time"

	judge "github.com/weir-dev/weir/test/conform/history"
)

// record is one call of a client, with the times at which it was sent and answered.
type record struct {
	start, end time.Time
	policy     string
	key        string
	process    int // that got the call, by its number
	cost       int64
	allowed    bool
	// degraded is the failure mode that decided, empty if the limits did.
	degraded string
	// failed is true if there was no answer, and failure is why.
	failed  bool
	failure string
	// fromSlice is true if the process decided from a slice.
	fromSlice bool
	// waits is true for a denial that only units held by others cause.
	waits bool
}

// history is the calls of all clients.
type history struct {
	mu      sync.Mutex
	records []record
}

func (h *history) add(r record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

// all returns a copy of the records, in the order of their starts.
func (h *history) all() []record {
	h.mu.Lock()
	defer h.mu.Unlock()
	records := slices.Clone(h.records)
	slices.SortFunc(records, func(a, b record) int { return a.start.Compare(b.start) })
	return records
}

// filter returns the records for which keep is true.
func filter(records []record, keep func(*record) bool) []record {
	var kept []record
	for i := range records {
		if keep(&records[i]) {
			kept = append(kept, records[i])
		}
	}
	return kept
}

// overAdmitted returns by how many units the limits admitted more than the quota in one window: the
// cost of the calls that were admitted by the limits, and of which the first start and the last end
// lie closer together than the window. The server counted all of these within one window, whenever
// between start and end it did. The records belong to one key and are in the order of their starts.
func overAdmitted(records []record, quota int64, window time.Duration) int64 {
	admitted := callsOf(filter(records, func(r *record) bool { return r.allowed && r.degraded == "" && !r.failed }))
	return judge.Over(admitted, judge.Quotas{judgedKey: {Units: quota, Window: window, Kind: judge.Rolling}})
}

// admittedUnits returns the cost of the calls that the limits admitted.
func admittedUnits(records []record) (sum int64) {
	for i := range records {
		if r := &records[i]; r.allowed && r.degraded == "" && !r.failed {
			sum += r.cost
		}
	}
	return sum
}

// percentile returns the time that a share of the calls did not exceed; 0 without calls.
func percentile(records []record, share float64) time.Duration {
	return judge.Percentile(callsOf(records), share)
}

// judgedKey is the key of all calls of callsOf.
const judgedKey = "key"

// callsOf returns the records as admitted calls of one key.
func callsOf(records []record) []judge.Call {
	calls := make([]judge.Call, len(records))
	for i := range records {
		r := &records[i]
		calls[i] = judge.Call{Sent: r.start, Replied: r.end, Keys: []string{judgedKey}, Units: r.cost, Admitted: true}
	}
	return calls
}
