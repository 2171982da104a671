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
	limits := make([]string, len(spec.Limits))
	for i := range spec.Limits {
		l := &spec.Limits[i]
		length := string(l.Window)
		if c := l.Calendar; c != nil {
			length = periodText(string(c.Period), zoneOf(c))
		}
		limits[i] = limitText(l.Name, l.Threshold, l.Algorithm == v1alpha1.AlgorithmConcurrency, length)
	}
	return strings.Join(limits, ", ")
}

// PlanSummary is Summary for the limits of a plan, whose windows may be written in another way.
func PlanSummary(p *plan.Plan) string {
	limits := make([]string, len(p.Limits))
	for i := range p.Limits {
		l := &p.Limits[i]
		length := plan.FormatMillis(l.WindowMillis)
		if c := l.Calendar; c != nil {
			length = periodText(string(c.Period), c.TimeZone)
		}
		limits[i] = limitText(l.Name, l.Threshold, l.Algorithm == plan.Concurrency, length)
	}
	return strings.Join(limits, ", ")
}

// periodText returns the period, and the time zone unless it is the default.
func periodText(period, zone string) string {
	if zone == plan.UTC {
		return period
	}
	return period + " " + zone
}

// limitText returns a limit with its window or period, which Concurrency does not have.
func limitText(name string, threshold int64, isConcurrency bool, length string) string {
	if isConcurrency {
		return fmt.Sprintf("%s %d at once", name, threshold)
	}
	return fmt.Sprintf("%s %d/%s", name, threshold, length)
}
