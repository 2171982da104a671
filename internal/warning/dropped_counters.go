// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// scriptLimit returns the fields of the limit that identify its state in Redis.
func scriptLimit(l *plan.Limit) *store.Limit {
	var calendar store.Calendar // nil, not a nil *plan.Calendar
	if l.Calendar != nil {
		calendar = l.Calendar
	}
	return &store.Limit{
		Calendar:    calendar,
		Name:        l.Name,
		Algorithm:   store.AlgorithmNamed(string(l.Algorithm)),
		Window:      l.Window(),
		Bucket:      l.Bucket(),
		StateSuffix: l.StateSuffix,
	}
}

// sharesState reports whether two limits of one policy count in the same state.
func sharesState(a, b *plan.Limit) bool { return scriptLimit(a).SharesState(scriptLimit(b)) }

// startsAfresh reports whether the limit finds none of its counters among the counters of
// the old limits.
func startsAfresh(old []plan.Limit, limit *plan.Limit) bool {
	return !slices.ContainsFunc(old, func(before plan.Limit) bool { return sharesState(&before, limit) })
}

// KeepsCounters reports whether the limit of that index in is.Limits continues with counters of was.
func KeepsCounters(was, is *plan.Plan, limit int) bool {
	return slices.Equal(was.Key, is.Key) && !startsAfresh(was.Limits, &is.Limits[limit])
}

// DroppedCounters warns of the counters that an edit resets. A new threshold keeps
// the counters and causes no warning.
func DroppedCounters(was, is *plan.Plan) (warnings []string) {
	if !slices.Equal(was.Key, is.Key) {
		return []string{"spec.key: callers get the counters of the new key; counters and live blocks of other key values no longer apply"}
	}
	for i, limit := range is.Limits {
		if before, found := limitOf(was.Limits, limit.Name); !found {
			warnings = append(warnings, droppedByRename(was, is, i)...)
		} else if startsAfresh(was.Limits, &limit) {
			warnings = append(warnings, fmt.Sprintf("%s: the change resets the counters of limit %s",
				at("limits", i).Child(changedField(before, limit)), limit.Name))
		}
	}
	for i := range is.Overrides {
		warnings = append(warnings, droppedByOverride(was, is, i)...)
	}
	return warnings
}

// droppedByRename warns of the counters of a limit that an edit renames. Without the
// name, they would belong to the new limit.
func droppedByRename(was, is *plan.Plan, i int) []string {
	if !startsAfresh(was.Limits, &is.Limits[i]) {
		return nil
	}
	for _, before := range was.Limits {
		renamed := is.Limits[i]
		renamed.Name = before.Name
		if _, stays := limitOf(is.Limits, before.Name); !stays && sharesState(&before, &renamed) {
			return []string{fmt.Sprintf("%s: the change resets the counters of limit %s", at("limits", i).Child("name"), before.Name)}
		}
	}
	return nil
}

// droppedByOverride warns of counters that are reset only for the callers that
// an override selects.
func droppedByOverride(was, is *plan.Plan, i int) (warnings []string) {
	o := &is.Overrides[i]
	old := overrideBefore(was, is, o)
	if o.Action != plan.ActionLimit || old == nil || old.Action != plan.ActionLimit {
		return nil
	}
	theirs := was.LimitsOf(old)
	for j, limit := range is.LimitsOf(o) {
		before, found := limitOf(theirs, limit.Name)
		if found && startsAfresh(theirs, &limit) && !startsAfresh(was.Limits, &is.Limits[j]) {
			warnings = append(warnings, fmt.Sprintf("%s: the change resets the counters of limit %s for the callers of override %s",
				overrideField(o, i, before, limit), limit.Name, old.Name))
		}
	}
	return warnings
}

// overrideBefore returns the override before the edit: the one with its name, or the
// one with its selectors whose name is gone. It returns nil for a new override.
func overrideBefore(was, is *plan.Plan, o *plan.Override) *plan.Override {
	if same := overrideOf(was, o.Name); same != nil {
		return same
	}
	for i := range was.Overrides {
		b := &was.Overrides[i]
		if overrideOf(is, b.Name) == nil &&
			slices.Equal(b.Keys, o.Keys) && slices.Equal(b.Groups, o.Groups) && slices.Equal(b.CIDRs, o.CIDRs) && b.When == o.When {
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

// overrideField returns the field of the override whose change resets the counters.
func overrideField(o *plan.Override, i int, was, is plan.Limit) *field.Path {
	if was.StateSuffix != "" && is.StateSuffix != "" && was.StateSuffix != is.StateSuffix {
		return at("overrides", i).Child("name")
	}
	j := slices.IndexFunc(o.Limits, func(l plan.LimitOverride) bool { return l.Name == is.Name })
	if j < 0 {
		return at("overrides", i).Child("limits")
	}
	return at("overrides", i).Child("limits").Index(j).Child(changedField(was, is))
}

// changedField returns the name of the first field that gives a limit a new state. A
// bucket that is not set follows the window, so the window comes first.
func changedField(was, is plan.Limit) string {
	switch {
	case was.Algorithm != is.Algorithm:
		return "algorithm"
	case is.Calendar != nil:
		return "calendar"
	case was.WindowMillis != is.WindowMillis:
		return "window"
	case was.BucketMicros != is.BucketMicros:
		return "bucket"
	default:
		return "threshold" // an override of the refill rate has a state of its own
	}
}

func limitOf(limits []plan.Limit, name string) (plan.Limit, bool) {
	i := slices.IndexFunc(limits, func(l plan.Limit) bool { return l.Name == name })
	if i < 0 {
		return plan.Limit{}, false
	}
	return limits[i], true
}
