// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"strconv"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
)

// The headers of draft-ietf-httpapi-ratelimit-headers-11, and those that were
// usual before it. They are sent as spelled here, which http.Header.Set would
// not do.
const (
	HeaderRateLimit       = "RateLimit"
	HeaderRateLimitPolicy = "RateLimit-Policy"
	headerLegacyLimit     = "X-RateLimit-Limit"
	headerLegacyRemaining = "X-RateLimit-Remaining"
	headerLegacyReset     = "X-RateLimit-Reset"
)

// maxField is the largest integer of a structured field (RFC 9651 section
// 3.3.1).
const maxField = 999_999_999_999_999

// addLimits tells of the limits that took part, but for those in mode
// Shadow: a caller must not notice that something is being tried out.
// retryAfter is the header of that name, 0 for none.
func (a *Answer) addLimits(d *limiter.Decision, retryAfter int64, legacy bool) {
	var policies, states []byte
	var tightest *limiter.LimitState
	for i := range d.Limits {
		l := &d.Limits[i]
		if l.Shadow || !tightestOfItsName(d.Limits, i) {
			continue
		}
		policies = appendPolicy(policies, l)
		states = appendState(states, l, retryAfter)
		if tightest == nil || l.TighterThan(tightest) {
			tightest = l
		}
	}
	if tightest == nil {
		return
	}
	a.add(HeaderRateLimitPolicy, string(policies))
	a.add(HeaderRateLimit, string(states))
	if legacy {
		a.add(headerLegacyLimit, strconv.FormatInt(tightest.Quota, 10))
		a.add(headerLegacyRemaining, strconv.FormatInt(Available(tightest), 10))
		a.add(headerLegacyReset, strconv.FormatInt(resetSeconds(tightest, retryAfter), 10))
	}
}

// tightestOfItsName reports whether no other state of the same limit says more: a
// policy may take part with several keys, and a name stands in the list once.
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

// ItemName is what the limit is called in the headers.
func ItemName(l *limiter.LimitState) string { return string(appendName(nil, l)) }

func appendName(text []byte, l *limiter.LimitState) []byte {
	text = append(text, l.Policy...)
	text = append(text, '-')
	return append(text, l.Limit...)
}

// appendItem appends the name of the limit as a string of a list. Names are DNS
// labels, so nothing in them needs escaping.
func appendItem(list []byte, l *limiter.LimitState) []byte {
	if len(list) > 0 {
		list = append(list, ", "...)
	}
	list = append(list, '"')
	return append(appendName(list, l), '"')
}

// appendPolicy appends what the limit grants. A window that is not whole seconds
// cannot be said.
func appendPolicy(list []byte, l *limiter.LimitState) []byte {
	list = append(appendItem(list, l), ";q="...)
	list = strconv.AppendInt(list, l.Quota, 10)
	if l.Window >= time.Second && l.Window%time.Second == 0 {
		list = append(list, ";w="...)
		list = strconv.AppendInt(list, int64(l.Window/time.Second), 10)
	}
	return list
}

// appendState appends what is left of the limit, and for how long.
func appendState(list []byte, l *limiter.LimitState, retryAfter int64) []byte {
	list = append(appendItem(list, l), ";r="...)
	list = strconv.AppendInt(list, Available(l), 10)
	list = append(list, ";t="...)
	return strconv.AppendInt(list, resetSeconds(l, retryAfter), 10)
}

// Available is what is left of the limit: nothing while its policy is blocked,
// whatever the windows say.
func Available(l *limiter.LimitState) int64 {
	if l.Blocked {
		return 0
	}
	return l.Remaining
}

// secondsOf is how long what is left has to last. In a refusal that is Retry-After
// for all limits: the draft wants no end of a window to be later than it.
func resetSeconds(l *limiter.LimitState, retryAfter int64) int64 {
	if retryAfter > 0 {
		return retryAfter
	}
	return min(RoundUp(max(0, l.ResetAfter), time.Second), maxField)
}
