// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strconv"
	"time"
)

// The name of a state contains the ID of the policy and the kind of the state. It is unique among the states
// of one key in all policies.
//
// No two kinds of states have equal names, whatever limits and overrides are named. After the ID of a policy:
//
//   - A counter has three parts or more: limit, algorithm, window. Its second part is a code of two
//     letters, unlike escalation, largest and set.
//   - block, held, requested and sl have one part. held:set, sl:largest and <limit>:escalation have two
//     and end differently. The largest number of a counter of SlidingLog is one part longer than the
//     counter, which has at most four.
//   - The ID of a charge may have colons and be any text. No name contains the "!" before it.

// StateName returns the name of the limit's state in the policy with that ID. Limits with the same name
// share a state, although their numbers may differ.
func (l *Limit) StateName(policy string) string {
	switch {
	case l.Algorithm == SlidingLog && l.StateSuffix == "":
		return policy + ":" + string(SlidingLog)
	case l.Algorithm == Concurrency:
		return HoldsName(policy)
	}
	window := formatLength(l.Window)
	if l.Calendar != nil {
		window = l.Calendar.ID()
	}
	name := policy + ":" + l.Name + ":" + string(l.Algorithm) + ":" + window
	if l.Bucket > 0 {
		name += ":" + formatLength(l.Bucket)
	}
	if l.StateSuffix != "" {
		name += ":" + l.StateSuffix
	}
	return name
}

// EscalationName returns the name of the number of blocks that the limit has started.
func (l *Limit) EscalationName(policy string) string { return policy + ":" + l.Name + ":escalation" }

// BlockName returns the name of the block.
func BlockName(policy string) string { return policy + ":block" }

// HoldsName returns the name of the holds.
func HoldsName(policy string) string { return policy + ":held" }

// ChargeName returns the name of the state that exists while the ID of a charge is remembered.
func ChargeName(policy, id string) string { return policy + ":charge!" + id }

// LargestName returns the name of the largest number that the log with that name serves.
func LargestName(log string) string { return log + ":largest" }

// formatLength formats a duration in the largest unit that is exact, so that names are readable.
func formatLength(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		suffix string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d%unit.length == 0 {
			return strconv.FormatInt(int64(d/unit.length), 10) + unit.suffix
		}
	}
	return strconv.FormatInt(d.Microseconds(), 10) + "us"
}
