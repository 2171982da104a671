// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"
)

// Under returns the units of calls that were denied although each of their keys had room: even if every call
// that may have been counted in the window was counted there, the quota was enough for them and for the
// denied call. The calls are in the order of Recorder.Calls.
func Under(calls []Call, quotas Quotas) (units int64) {
	spent := map[string]*spending{}
	for key := range quotas {
		spent[key] = &spending{}
	}
	for _, c := range calls {
		if !c.Admitted && !c.mayBeCounted() {
			continue
		}
		for _, key := range c.Keys {
			if s := spent[key]; s != nil {
				s.add(c)
			}
		}
	}
	for _, s := range spent {
		s.complete()
	}
	for _, c := range calls {
		if !c.Admitted && !c.Failed && hasRoom(c, quotas, spent) {
			units += c.Units
		}
	}
	return units
}

func hasRoom(c Call, quotas Quotas, spent map[string]*spending) bool {
	for _, key := range c.Keys {
		q, ok := quotas[key]
		if !ok {
			continue
		}
		// A window of any kind that contains the call begins no earlier than this.
		since := c.Sent.Add(-q.Window)
		used := spent[key].between(since, c.Replied)
		if c.mayBeCounted() {
			used -= c.Units
		}
		if used+c.Units > q.Units {
			return false
		}
	}
	return true
}

// spending is the calls that spent, or may have spent, units of one key.
type spending struct{ bySent, byReply []event }

// event is the sum of the units up to a time.
type event struct {
	at  time.Time
	sum int64
}

func (s *spending) add(c Call) {
	s.bySent = append(s.bySent, event{c.Sent, c.Units})
	if !c.mayBeCounted() { // the limiter may count such a call at any later time
		s.byReply = append(s.byReply, event{c.Replied, c.Units})
	}
}

// complete turns the units of the events into sums.
func (s *spending) complete() {
	for _, events := range [][]event{s.bySent, s.byReply} {
		slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
		for i := 1; i < len(events); i++ {
			events[i].sum += events[i-1].sum
		}
	}
}

// between returns the units that may have been spent from since to until, both included.
func (s *spending) between(since, until time.Time) int64 {
	return sumBefore(s.bySent, until.Add(1)) - sumBefore(s.byReply, since)
}

func sumBefore(events []event, t time.Time) int64 {
	n, _ := slices.BinarySearchFunc(events, t, func(e event, t time.Time) int { return e.at.Compare(t) })
	if n == 0 {
		return 0
	}
	return events[n-1].sum
}
