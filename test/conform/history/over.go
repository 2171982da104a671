// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"maps"
	"slices"
	"time"
)

// Over returns by how many units the quotas were exceeded: for each key in the worst period of the length of its
// window, the sum over all keys. The calls are in the order of Recorder.Calls.
func Over(calls []Call, quotas Quotas) int64 {
	return overIn(calls, quotas, func(spent *keyCalls, q Quota) int64 {
		return mostInAnyWindow(spent.admitted, q.Window) - q.Units
	})
}

// OverDocumented is like Over, but within the windows that the limiter documents: twice the quota around the
// end of a fixed window is allowed.
func OverDocumented(calls []Call, quotas Quotas) int64 {
	return overIn(calls, quotas, func(spent *keyCalls, q Quota) int64 {
		switch {
		case q.Kind == Aligned:
			return mostInAlignedWindow(spent.admitted, q.Window) - q.Units
		case q.Kind == Anchored && spent.doubtful:
			// Such a call may have begun a window at any time. Two windows at most overlap a period
			// of their length.
			return mostInAnyWindow(spent.admitted, q.Window) - 2*q.Units
		case q.Kind == Anchored:
			return mostInAnchoredWindow(spent.admitted, q.Window) - q.Units
		default:
			return mostInAnyWindow(spent.admitted, q.Window) - q.Units
		}
	})
}

func overIn(calls []Call, quotas Quotas, over func(spent *keyCalls, q Quota) int64) int64 {
	var sum int64
	for key, spent := range byKey(calls) {
		if q, ok := quotas[key]; ok {
			sum += max(0, over(spent, q))
		}
	}
	return sum
}

// keyCalls is the calls of one key that spent units.
type keyCalls struct {
	admitted []Call
	doubtful bool // whether there are calls that may have spent units, too
}

func byKey(calls []Call) map[string]*keyCalls {
	all := map[string]*keyCalls{}
	for _, c := range calls {
		if !c.Admitted && !c.mayBeCounted() {
			continue
		}
		for _, key := range c.Keys {
			spent := all[key]
			if spent == nil {
				spent = &keyCalls{}
				all[key] = spent
			}
			if c.mayBeCounted() {
				spent.doubtful = true
			} else {
				spent.admitted = append(spent.admitted, c)
			}
		}
	}
	return all
}

// mostInAnyWindow returns the most units of calls that were sent and answered within one period of the length.
func mostInAnyWindow(admitted []Call, window time.Duration) int64 {
	// From the last to the first call: once a call is added to the sums, they contain all calls sent at
	// the same time or later.
	sums := newPrefixSums(len(admitted))
	replies, place := inOrderOfReplies(admitted)
	var most int64
	for i, call := range slices.Backward(admitted) {
		sums.add(place[i], call.Units)
		within, _ := slices.BinarySearchFunc(replies, call.Sent.Add(window), time.Time.Compare)
		most = max(most, sums.first(within))
	}
	return most
}

// inOrderOfReplies returns the sorted times of the answers, and the place of each call among them.
func inOrderOfReplies(calls []Call) (replies []time.Time, place []int) {
	order := make([]int, len(calls))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return calls[a].Replied.Compare(calls[b].Replied) })
	replies, place = make([]time.Time, len(calls)), make([]int, len(calls))
	for at, i := range order {
		replies[at], place[i] = calls[i].Replied, at
	}
	return replies, place
}

// mostInAlignedWindow returns the most units of calls that were sent and answered within one window.
func mostInAlignedWindow(admitted []Call, window time.Duration) int64 {
	byWindow := map[int64]int64{}
	for _, c := range admitted {
		if n := c.Sent.UnixNano() / int64(window); n == c.Replied.UnixNano()/int64(window) {
			byWindow[n] += c.Units
		}
	}
	return slices.Max(append(slices.Collect(maps.Values(byWindow)), 0))
}

// mostInAnchoredWindow returns the most units of calls that were sent and answered within one window, for
// windows that begin with their first call.
func mostInAnchoredWindow(admitted []Call, window time.Duration) int64 {
	var most int64
	calls := slices.SortedFunc(slices.Values(admitted), func(a, b Call) int { return a.Replied.Compare(b.Replied) })
	var begins time.Time // when a call of a former round may have begun the window
	for len(calls) > 0 {
		latest := calls[0].Replied // the first call was counted before the first answer
		earliest := calls[0].Sent
		for _, c := range calls {
			earliest = minTime(earliest, c.Sent)
		}
		if !begins.IsZero() {
			earliest = minTime(earliest, begins)
		}
		begins = time.Time{}
		var sum int64
		var later []Call
		for _, c := range calls {
			switch {
			case c.Replied.Before(earliest.Add(window)):
				sum += c.Units
			case c.Sent.After(latest.Add(window)):
				later = append(later, c)
			default: // in this window, or begins the next one
				if possible := maxTime(c.Sent, earliest.Add(window)); begins.IsZero() || possible.Before(begins) {
					begins = possible
				}
			}
		}
		most = max(most, sum)
		calls = later
	}
	return most
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// prefixSums is a Fenwick tree: sums of the first n of a list of numbers that change.
type prefixSums []int64

func newPrefixSums(n int) prefixSums { return make(prefixSums, n+1) }

func (s prefixSums) add(at int, units int64) {
	for i := at + 1; i < len(s); i += i & -i {
		s[i] += units
	}
}

func (s prefixSums) first(n int) (sum int64) {
	for i := n; i > 0; i -= i & -i {
		sum += s[i]
	}
	return sum
}
