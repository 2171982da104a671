// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
)

// Headers of draft-ietf-httpapi-ratelimit-headers-11, and the older X-RateLimit headers.
// http.Header.Set would change their spelling.
const (
	HeaderRateLimit       = "RateLimit"
	HeaderRateLimitPolicy = "RateLimit-Policy"
	headerLegacyLimit     = "X-RateLimit-Limit"
	headerLegacyRemaining = "X-RateLimit-Remaining"
	headerLegacyReset     = "X-RateLimit-Reset"
)

// maxField is the largest integer of a structured field (RFC 9651, section 3.3.1).
const maxField = 999_999_999_999_999

// maxLimits is the largest number of limits in the headers, so that proxies accept them.
const maxLimits = 16

// addLimits adds the RateLimit headers for the limits that took part, the tightest ones if there are more
// than maxLimits. Limits in mode Shadow are left out, so that callers do not notice them. retryAfter
// is the value of the Retry-After header in seconds, 0 without one.
func (a *Answer) addLimits(d *limiter.Decision, retryAfter int64, legacy bool) {
	start := len(a.text)
	a.states = a.states[:0]
	var tightest *limiter.LimitState
	shown := shownLimits(d.Limits)
	for i := range d.Limits {
		l := &d.Limits[i]
		if !shown.has(d.Limits, i) {
			continue
		}
		if tightest != nil {
			a.text, a.states = append(a.text, separator...), append(a.states, separator...)
		}
		a.text, a.states = appendPolicy(a.text, l), appendState(a.states, l, retryAfter)
		if tightest == nil || l.TighterThan(tightest) {
			tightest = l
		}
	}
	if tightest == nil {
		return
	}
	a.addText(HeaderRateLimitPolicy, start)
	start = len(a.text)
	a.text = append(a.text, a.states...)
	a.addText(HeaderRateLimit, start)
	if legacy {
		a.addNumber(headerLegacyLimit, tightest.Quota)
		a.addNumber(headerLegacyRemaining, Available(tightest))
		a.addNumber(headerLegacyReset, resetSeconds(tightest, retryAfter))
	}
}

// shown is the set of the limits in the headers, by index. Nil is the tightest of each name that is not
// in mode Shadow.
type shown map[int]bool

// shownLimits returns the limits in the headers.
func shownLimits(states []limiter.LimitState) shown {
	if len(states) <= maxLimits {
		return nil
	}
	type name struct{ policy, limit string }
	byName := make(map[name]int, len(states)) // the tightest of each name
	for i := range states {
		l := &states[i]
		of := name{l.Policy, l.Limit}
		if best, found := byName[of]; !l.Shadow && (!found || l.TighterThan(&states[best])) {
			byName[of] = i
		}
	}
	indexes := slices.Sorted(maps.Values(byName))
	slices.SortStableFunc(indexes, func(i, j int) int {
		switch a, b := &states[i], &states[j]; {
		case a.TighterThan(b):
			return -1
		case b.TighterThan(a):
			return 1
		}
		return 0
	})
	tightest := make(shown, maxLimits)
	for _, i := range indexes[:min(len(indexes), maxLimits)] {
		tightest[i] = true
	}
	return tightest
}

// has reports whether the headers have the i-th limit.
func (s shown) has(states []limiter.LimitState, i int) bool {
	if s != nil {
		return s[i]
	}
	return !states[i].Shadow && tightestOfItsName(states, i)
}

// separator is between the items of a list.
const separator = ", "

// tightestOfItsName reports whether the i-th state is the tightest of its limit. A policy
// can take part with several keys, but the list may hold each name only once.
func tightestOfItsName(states []limiter.LimitState, i int) bool {
	for j := range states {
		same := i != j && !states[j].Shadow &&
			states[i].Limit == states[j].Limit && states[i].Policy == states[j].Policy
		if same && (states[j].TighterThan(&states[i]) || j < i && !states[i].TighterThan(&states[j])) {
			return false
		}
	}
	return true
}

// AppendItemName appends the name of the limit in the headers: "<policy>-<limit>".
func AppendItemName(text []byte, l *limiter.LimitState) []byte {
	text = append(text, l.Policy...)
	text = append(text, '-')
	return append(text, l.Limit...)
}

// appendItem appends the name of the limit as a quoted list item. Names are DNS labels, so
// they need no escaping.
func appendItem(list []byte, l *limiter.LimitState) []byte {
	list = append(list, '"')
	return append(AppendItemName(list, l), '"')
}

// appendPolicy appends the quota and the window of the limit. The header cannot express a
// window that is not whole seconds, so it is left out.
func appendPolicy(list []byte, l *limiter.LimitState) []byte {
	list = append(appendItem(list, l), ";q="...)
	list = strconv.AppendInt(list, l.Quota, 10)
	if l.Window >= time.Second && l.Window%time.Second == 0 {
		list = append(list, ";w="...)
		list = strconv.AppendInt(list, int64(l.Window/time.Second), 10)
	}
	return list
}

// appendState appends the units left and the seconds until the limit resets.
func appendState(list []byte, l *limiter.LimitState, retryAfter int64) []byte {
	list = append(appendItem(list, l), ";r="...)
	list = strconv.AppendInt(list, Available(l), 10)
	list = append(list, ";t="...)
	return strconv.AppendInt(list, resetSeconds(l, retryAfter), 10)
}

// Available returns the units left of the limit: none while the key is blocked.
func Available(l *limiter.LimitState) int64 {
	if l.Blocked {
		return 0
	}
	return l.Remaining
}

// resetSeconds returns the seconds until the limit resets. In a denial it is Retry-After
// for every limit: the draft allows no reset later than that.
func resetSeconds(l *limiter.LimitState, retryAfter int64) int64 {
	if retryAfter > 0 {
		return retryAfter
	}
	return min(RoundUp(max(0, l.ResetAfter), time.Second), maxField)
}
