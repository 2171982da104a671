// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// isWildcard reports whether the value of a descriptor of envoyproxy/ratelimit is a pattern: each "*" stands for any text,
// also for none. Releases before March 2026 know "*" only at the end.
func isWildcard(value string) bool { return strings.Contains(value, "*") }

// isPrefix reports whether the pattern is a beginning of values that an entry of a match can have.
func isPrefix(pattern string) bool {
	return strings.IndexByte(pattern, '*') == len(pattern)-1 && 1 < len(pattern) && len(pattern) <= plan.MaxText
}

// wildcardCondition returns the condition that the expression named value has a text of the pattern.
func wildcardCondition(value, pattern string) string {
	parts := strings.Split(pattern, "*")
	switch first, last := parts[0], parts[len(parts)-1]; {
	case len(parts) == 2 && last == "":
		return value + ".startsWith(" + strconv.Quote(first) + ")"
	case len(parts) == 2 && first == "":
		return value + ".endsWith(" + strconv.Quote(last) + ")"
	}
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return value + ".matches(" + strconv.Quote("(?s)^"+strings.Join(parts, ".*")+"$") + ")"
}

// areDisjoint reports whether no text has two patterns or values, as far as their beginnings and ends show. Without the
// conditions that this makes superfluous, more patterns of a key fit into the price of a request.
func areDisjoint(a, b string) bool {
	beginA, _, _ := strings.Cut(a, "*")
	beginB, _, _ := strings.Cut(b, "*")
	endA, endB := a[strings.LastIndex(a, "*")+1:], b[strings.LastIndex(b, "*")+1:]
	return !strings.HasPrefix(beginA, beginB) && !strings.HasPrefix(beginB, beginA) ||
		!strings.HasSuffix(endA, endB) && !strings.HasSuffix(endB, endA)
}

// covers reports whether the pattern a has every text of the pattern or value b: its parts occur in b in their order.
func covers(a, b string) bool {
	parts := strings.Split(a, "*")
	rest, found := strings.CutPrefix(b, parts[0])
	if len(parts) == 1 {
		return a == b
	}
	for _, part := range parts[1 : len(parts)-1] {
		if found {
			_, rest, found = strings.Cut(rest, part)
		}
	}
	return found && strings.HasSuffix(rest, parts[len(parts)-1])
}
