// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"sync"
	"time"
)

// Call is one call of a caller.
type Call struct {
	Sent, Replied time.Time
	// Keys are the counters that an admitted call spends Units of.
	Keys     []string
	Units    int64
	Admitted bool
	// Failed is true if there was no decision. The limiter may have counted the call or not, also later.
	Failed bool
	// Disturbed is true if something was broken during the call. A denial may then be the failure mode, of a call
	// that was counted, also later.
	Disturbed bool
}

// mayBeCounted reports whether the limiter may have counted the call although it did not admit it.
func (c *Call) mayBeCounted() bool { return c.Failed || !c.Admitted && c.Disturbed }

// Recorder collects calls. Its methods are safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	calls []Call
}

// Add records a call.
func (r *Recorder) Add(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
}

// Calls returns the calls so far, in the order in which they were sent.
func (r *Recorder) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := slices.Clone(r.calls)
	slices.SortStableFunc(calls, func(a, b Call) int { return a.Sent.Compare(b.Sent) })
	return calls
}

// Quotas maps a key to the quota of its counter.
type Quotas map[string]Quota

// Quota is the units that a limit admits in a window.
type Quota struct {
	Units  int64
	Window time.Duration
	Kind   WindowKind
}

// WindowKind is how a limiter documents its windows.
type WindowKind string

const (
	// Rolling windows begin at any time: the quota holds in every period of the length.
	Rolling WindowKind = "rolling"
	// Aligned windows begin at multiples of their length since 1970.
	Aligned WindowKind = "aligned"
	// Anchored windows begin with the first unit after the previous window.
	Anchored WindowKind = "anchored"
)
