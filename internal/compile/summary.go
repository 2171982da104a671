// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Summary returns the limits in one line, such as "burst 5/1m, spend 20/Month Europe/Berlin, calls 10 at once",
// with the windows as their author wrote them. The policy need not compile. A spec that is
// valid by the schema stays below the 2048 characters of status.summary.
func Summary(spec *v1alpha1.RateLimitPolicySpec) string {
	limits := make([]string, 0, len(spec.Limits))
	for i := range spec.Limits {
		l := &spec.Limits[i]
		limits = append(limits, fmt.Sprintf("%s %d%s", l.Name, l.Threshold, lengthOf(l)))
	}
	return strings.Join(limits, ", ")
}

// lengthOf returns a slash and the window of the limit, or the period and the time zone of its
// calendar. Concurrency has neither.
func lengthOf(l *v1alpha1.Limit) string {
	c := l.Calendar
	switch {
	case l.Algorithm == v1alpha1.AlgorithmConcurrency:
		return " at once"
	case c == nil:
		return "/" + string(l.Window)
	case zoneOf(c) == plan.UTC:
		return "/" + string(c.Period)
	}
	return "/" + string(c.Period) + " " + c.TimeZone
}

// PlanSummary is Summary for the limits of a plan, whose windows may be written in another way.
func PlanSummary(p *plan.Plan) string {
	limits := make([]string, 0, len(p.Limits))
	for i := range p.Limits {
		l := &p.Limits[i]
		length := "/" + plan.FormatMillis(l.WindowMillis)
		switch c := l.Calendar; {
		case l.Algorithm == plan.Concurrency:
			length = " at once"
		case c != nil && c.TimeZone == plan.UTC:
			length = "/" + string(c.Period)
		case c != nil:
			length = "/" + string(c.Period) + " " + c.TimeZone
		}
		limits = append(limits, fmt.Sprintf("%s %d%s", l.Name, l.Threshold, length))
	}
	return strings.Join(limits, ", ")
}
