// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import "fmt"

// FailMode decides when Weir makes no decision. The zero value is invalid, so that the choice is
// made in the code of the caller.
type FailMode int

const (
	// Open allows the request: an outage of Weir lifts all limits.
	Open FailMode = iota + 1
	// Closed denies the request with 503: an outage of Weir is an outage of the caller.
	Closed
)

// String returns "Open" or "Closed".
func (m FailMode) String() string {
	switch m {
	case Open:
		return "Open"
	case Closed:
		return "Closed"
	default:
		return fmt.Sprintf("FailMode(%d)", int(m))
	}
}

// Valid reports whether the mode is Open or Closed.
func (m FailMode) Valid() bool { return m == Open || m == Closed }
