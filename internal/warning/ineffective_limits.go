// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// ineffectiveLimits warns of limits that never change a decision, because another limit
// of the policy denies every request that they would deny.
func ineffectiveLimits(p *plan.Plan) (warnings []string) {
	variants := variantsOf(p)
	for j := range p.Limits {
		for i := range p.Limits {
			// Of two equally tight limits only the second is reported.
			if i == j || !isTighter(p, variants, i, j) || j < i && isTighter(p, variants, j, i) {
				continue
			}
			warnings = append(warnings, fmt.Sprintf("%s (%s) is ineffective: %s (%s) is always tighter",
				at("limits", j), p.Limits[j].Name, at("limits", i), p.Limits[i].Name))
			break
		}
	}
	return warnings
}

// variantsOf returns the limits of the policy and those under each of its overrides.
func variantsOf(p *plan.Plan) [][]plan.Limit {
	variants := [][]plan.Limit{p.Limits}
	for i := range p.Overrides {
		if p.Overrides[i].Action == plan.ActionLimit {
			variants = append(variants, p.LimitsOf(&p.Overrides[i]))
		}
	}
	return variants
}

// isTighter reports whether limit j provably admits every check that limit i admits,
// for every caller.
func isTighter(p *plan.Plan, variants [][]plan.Limit, i, j int) bool {
	a, b := p.Limits[i], p.Limits[j]
	most, least := int64(0), int64(plan.MaxFixedWindowThreshold)
	for _, limits := range variants {
		// Under such an override limit a does not necessarily hold the units that b counted.
		if countsDifferently(limits[i], a) || countsDifferently(limits[j], b) {
			return false
		}
		if limits[j].LongestBlock() > shortestBlock(&limits[i]) {
			return false // when both deny, b makes the block longer
		}
		// A caller that an override selects only at times keeps its used units.
		most, least = max(most, p.Quota(limits[i])), min(least, p.Quota(limits[j]))
	}
	return admitsAllOf(p.Counting, a, most, b, least)
}

// shortestBlock returns the length of the first block of the limit.
func shortestBlock(l *plan.Limit) time.Duration {
	if len(l.BlocksMillis) > 0 {
		return time.Duration(l.BlocksMillis[0]) * time.Millisecond
	}
	return l.Block()
}

// countsDifferently reports whether the variant counts in another state or over another
// window than the limit of the policy.
func countsDifferently(variant, base plan.Limit) bool {
	return !sharesState(&variant, &base) || variant.WindowMillis != base.WindowMillis
}

// admitsAllOf reports whether limit b with its smallest quota admits every check that
// limit a with its largest quota admits.
func admitsAllOf(counting plan.Counting, a plan.Limit, most int64, b plan.Limit, least int64) bool {
	switch {
	case areIncomparable(a, b):
		return false
	case b.Algorithm.Refills():
		// Both charge the same units, and a refills no faster.
		return a.Algorithm.Refills() && most <= least && a.Threshold*b.WindowMillis <= b.Threshold*a.WindowMillis
	case countsAlike(a, b):
		return most <= least
	case counting == plan.CountAttempts:
		return false // b also counts the checks that a denied
	case a.Calendar != nil || b.Calendar != nil:
		return false // periods differ in length
	}
	return mostAdmitted(a, most, retention(b)) <= least
}

// areIncomparable reports whether the limits prove nothing about each other: Suppressed denies at
// random and counts denied checks, and the held units of Concurrency are independent of the spent ones.
func areIncomparable(a, b plan.Limit) bool {
	return a.Algorithm == plan.Suppressed || b.Algorithm == plan.Suppressed ||
		(a.Algorithm == plan.Concurrency) != (b.Algorithm == plan.Concurrency)
}

// countsAlike reports whether both limits, which do not refill, count the same units.
func countsAlike(a, b plan.Limit) bool {
	if a.Calendar != nil && b.Calendar != nil {
		return a.Calendar.ID() == b.Calendar.ID()
	}
	return a.Calendar == b.Calendar && a.Algorithm == b.Algorithm && a.WindowMillis == b.WindowMillis && a.BucketMicros == b.BucketMicros
}

// retention is the longest time in milliseconds for which a counting limit holds a
// unit: a bucket until its end has passed, a window as long as its Redis key, which
// outlives it by less than a millisecond.
func retention(l plan.Limit) int64 {
	if l.Algorithm == plan.FixedWindow {
		return l.WindowMillis + 1
	}
	return l.WindowMillis + (l.BucketMicros+999)/1000
}

// mostAdmitted is the most units that a limit with that quota admits in any period of
// millis milliseconds.
func mostAdmitted(l plan.Limit, quota, millis int64) int64 {
	if l.Algorithm.Refills() {
		return quota + l.Threshold*millis/l.WindowMillis
	}
	windows := (millis + l.WindowMillis - 1) / l.WindowMillis
	if l.Algorithm == plan.FixedWindow {
		windows++ // the period may begin within a window
	}
	if quota > math.MaxInt64/windows {
		return math.MaxInt64
	}
	return windows * quota
}
