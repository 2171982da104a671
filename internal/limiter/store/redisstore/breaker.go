// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import "time"

const (
	// maxFailures is the number of round trips in a row that open the breaker by failing.
	maxFailures = 5
	// breakerWindow, minTrips and maxFailedShare open it when a node answers only now and then:
	// of at least minTrips round trips in a window, at least that share failed.
	breakerWindow  = 100 * time.Millisecond
	minTrips       = 20
	maxFailedShare = 0.5
	// probePause is the time between two probes of a node whose breaker is open.
	probePause = 100 * time.Millisecond
)

// breaker decides from the outcomes of round trips to one node when to stop asking it: a
// circuit breaker. The zero value is closed. It is not safe for concurrent use.
type breaker struct {
	isOpen      bool
	consecutive int       // failures since the last success
	start       time.Time // of the window
	trips       int       // in the window
	failed      int       // of trips
}

// record takes the outcome of a round trip at the given time. It reports whether the breaker
// opens because of it.
func (b *breaker) record(now time.Time, failed bool) bool {
	if now.Sub(b.start) >= breakerWindow {
		b.start, b.trips, b.failed = now, 0, 0
	}
	b.trips++
	if !failed {
		b.consecutive = 0
		return false
	}
	b.consecutive++
	b.failed++
	if b.isOpen {
		return false
	}
	b.isOpen = b.consecutive >= maxFailures ||
		b.trips >= minTrips && float64(b.failed) >= maxFailedShare*float64(b.trips)
	return b.isOpen
}

// close closes the breaker and forgets the earlier failures.
func (b *breaker) close() { *b = breaker{} }
