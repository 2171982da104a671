// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// idleLimits warns of limits make no difference, because another limit of the policy
// refuses whatever they would refuse.
func idleLimits(p *plan.Plan) (warnings []string) {
	variants := variantsOf(p)
	for j := range p.Limits {
		for i := range p.Limits {
			// Of two that are equally tight the second is the one too many.
			if i == j || !isTighter(p, variants, i, j) || j < i && isTighter(p, variants, j, i) {
				continue
			}
			warnings = append(warnings, fmt.Sprintf("%s (%s) makes no difference: %s (%s) is always tighter",
				at("limits", j), p.Limits[j].Name, at("limits", i), p.Limits[i].Name))
			break
		}
	}
	return warnings
}

// variantsOf are the limits of the policy, and those it has under each override.
func variantsOf(p *plan.Plan) [][]plan.Limit {
	variants := [][]plan.Limit{p.Limits}
	for i := range p.Overrides {
		if p.Overrides[i].Action == plan.ActionLimit {
			variants = append(variants, p.LimitsOf(&p.Overrides[i]))
		}
	}
	return variants
}

// isTighter reports whether limit j can certainly not refuse a check that limit i
// lets pass, whoever the caller is.
func isTighter(p *plan.Plan, variants [][]plan.Limit, i, j int) bool {
	a, b := p.Limits[i], p.Limits[j]
	most, least := int64(0), int64(plan.MaxThreshold)
	for _, limits := range variants {
		// Where an override counts apart, a may know nothing of what b has counted.
		if hasOwnState(limits[i], a) || hasOwnState(limits[j], b) {
			return false
		}
		if limits[j].BlockMillis > limits[i].BlockMillis {
			return false // when both refuse, b makes the block longer
		}
		// A caller may be selected by an override now and by none later, and brings
		// along what it has spent.
		most, least = max(most, p.Quota(limits[i])), min(least, p.Quota(limits[j]))
	}
	return alwaysFits(p.Counting, a, most, b, least)
}

func hasOwnState(variant, base plan.Limit) bool {
	return !sharesState(&variant, &base) || variant.WindowMillis != base.WindowMillis
}

// alwaysFits reports whether limit b with its least quota never refuses what limit a
// with its largest quota lets pass.
func alwaysFits(counting plan.Counting, a plan.Limit, most int64, b plan.Limit, least int64) bool {
	switch {
	case a.Algorithm == plan.Suppressed || b.Algorithm == plan.Suppressed:
		return false // refuses at random, and counts what it refuses
	case b.Algorithm.Refills():
		// Both spend the same, and a gives back no faster.
		return a.Algorithm.Refills() && most <= least && a.Threshold*b.WindowMillis <= b.Threshold*a.WindowMillis
	case a.Algorithm == b.Algorithm && a.WindowMillis == b.WindowMillis && a.BucketMicros == b.BucketMicros:
		return most <= least // they count the same
	case counting == plan.CountAttempts:
		return false // b counts also what a has refused
	}
	return mostAdmitted(a, most, retention(b)) <= least
}

// retention is for how many milliseconds at most a limit that counts remembers a unit:
// a bucket until its end has passed, a window as long as its key in Redis, which
// outlives its time by less than a millisecond.
func retention(l plan.Limit) int64 {
	if l.Algorithm == plan.FixedWindow {
		return l.WindowMillis + 1
	}
	return l.WindowMillis + (l.BucketMicros+999)/1000
}

// mostAdmitted is the most units that a limit with that quota admits in any so many
// milliseconds.
func mostAdmitted(l plan.Limit, quota, millis int64) int64 {
	windows := (millis + l.WindowMillis - 1) / l.WindowMillis
	switch {
	case l.Algorithm.Refills():
		return quota + l.Threshold*millis/l.WindowMillis
	case l.Algorithm == plan.FixedWindow:
		return (windows + 1) * quota // they need not begin where the time begins
	default:
		return windows * quota
	}
}
