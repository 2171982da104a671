// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// state is what, beside policy, key and limit, names the counters of a limit in
// Redis; see the layout in internal/limiter/script/keys.go.
type state struct {
	algorithm    plan.Algorithm
	windowMillis int64
	bucketMicros int64
	override     string
}

func stateOf(l plan.Limit) state {
	if l.Algorithm == plan.SlidingLog {
		return state{algorithm: l.Algorithm} // one log for all of a policy's, whatever their names and windows
	}
	return state{l.Algorithm, l.WindowMillis, l.BucketMicros, l.State}
}

// lost reports whether what a limit has counted under the policy as it was counts no
// more. One that becomes a SlidingLog finds the log of others that were there.
func lost(policy *plan.Plan, was, is plan.Limit) bool {
	if is.Algorithm == plan.SlidingLog {
		return !slices.ContainsFunc(policy.Limits, func(l plan.Limit) bool { return l.Algorithm == plan.SlidingLog })
	}
	return stateOf(was) != stateOf(is)
}

// dropped says which counters an edit loses: those it gives another name. Lower or
// higher thresholds apply to what has been counted and are not mentioned.
func dropped(was, is *plan.Plan) (warnings []string) {
	if !slices.Equal(was.Key, is.Key) {
		return []string{"spec.key: callers are told apart by something else now: what has been counted, and every live block, is dropped"}
	}
	for i, limit := range is.Limits {
		if before, found := limitOf(was.Limits, limit.Name); !found {
			warnings = append(warnings, renamed(was, is, i)...)
		} else if lost(was, before, limit) {
			warnings = append(warnings, fmt.Sprintf("%s: the change drops what limit %s has counted",
				at("limits", i).Child(difference(before, limit)), limit.Name))
		}
	}
	for i := range is.Overrides {
		warnings = append(warnings, droppedByOverride(was, is, i)...)
	}
	return warnings
}

// renamed warns of a limit that another name was given to.
func renamed(was, is *plan.Plan, i int) []string {
	limit := is.Limits[i]
	if limit.Algorithm == plan.SlidingLog {
		return nil
	}
	for _, before := range was.Limits {
		if _, stays := limitOf(is.Limits, before.Name); !stays && stateOf(before) == stateOf(limit) {
			return []string{fmt.Sprintf("%s: the change drops what limit %s has counted", at("limits", i).Child("name"), before.Name)}
		}
	}
	return nil
}

// droppedByOverride warns of counters that only the callers of an override lose.
func droppedByOverride(was, is *plan.Plan, i int) (warnings []string) {
	o := &is.Overrides[i]
	before := overrideBefore(was, is, o)
	if o.Action != plan.ActionLimit || before == nil || before.Action != plan.ActionLimit {
		return nil
	}
	theirs := was.LimitsOf(before)
	for j, limit := range is.LimitsOf(o) {
		base, found := limitOf(was.Limits, limit.Name)
		own, _ := limitOf(theirs, limit.Name)
		if found && lost(was, own, limit) && !lost(was, base, is.Limits[j]) {
			warnings = append(warnings, fmt.Sprintf("%s: the change drops what limit %s has counted of the callers of override %s",
				whereIn(o, i, own, limit), limit.Name, before.Name))
		}
	}
	return warnings
}

// overrideBefore returns what the override was: the one of its name, or the one that
// had its selectors under a name that is gone.
func overrideBefore(was, is *plan.Plan, o *plan.Override) *plan.Override {
	if same := overrideOf(was, o.Name); same != nil {
		return same
	}
	for i := range was.Overrides {
		b := &was.Overrides[i]
		if overrideOf(is, b.Name) == nil &&
			slices.Equal(b.Keys, o.Keys) && slices.Equal(b.CIDRs, o.CIDRs) && b.When == o.When {
			return b
		}
	}
	return nil
}

func overrideOf(p *plan.Plan, name string) *plan.Override {
	for i := range p.Overrides {
		if p.Overrides[i].Name == name {
			return &p.Overrides[i]
		}
	}
	return nil
}

// whereIn is the field of the override that made the counters others.
func whereIn(o *plan.Override, i int, was, is plan.Limit) *field.Path {
	if was.State != "" && is.State != "" && was.State != is.State {
		return at("overrides", i).Child("name")
	}
	j := slices.IndexFunc(o.Limits, func(l plan.LimitOverride) bool { return l.Name == is.Name })
	if j < 0 {
		return at("overrides", i).Child("limits")
	}
	return at("overrides", i).Child("limits").Index(j).Child(difference(was, is))
}

// difference is the field by which two states of a limit differ. A bucket that is
// not given follows the window.
func difference(was, is plan.Limit) string {
	switch {
	case was.Algorithm != is.Algorithm:
		return "algorithm"
	case was.WindowMillis != is.WindowMillis:
		return "window"
	case was.BucketMicros != is.BucketMicros:
		return "bucket"
	default:
		return "threshold" // which makes a limit that refills count apart
	}
}

func limitOf(limits []plan.Limit, name string) (plan.Limit, bool) {
	i := slices.IndexFunc(limits, func(l plan.Limit) bool { return l.Name == name })
	if i < 0 {
		return plan.Limit{}, false
	}
	return limits[i], true
}
