// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert turns the configurations of other rate limiters into
// RateLimitPolicies.
//
// A conversion keeps the verdicts: the same request is counted under the same
// budget and refused at the same number. What the other limiter can do and a
// policy cannot is never dropped in silence: it comes back as a Note.
package convert

// Note is something that was not carried over, or that differs.
type Note struct {
	// At is where in the source, as "descriptors[0].rate_limit.unit"; empty for all
	// of it.
	At string
	// Text says what differs, and what to do about it.
	Text string
}

// String returns the note in one line.
func (n Note) String() string {
	if n.At == "" {
		return n.Text
	}
	return n.At + ": " + n.Text
}
