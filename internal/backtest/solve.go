// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Goal is what Solve looks for.
type Goal struct {
	// Limit is the name of a limit, or "<namespace>/<policy>/<limit>", or "<policy>/<limit>".
	Limit string
	// Target is the largest share of requests, 0..1, that may be denied.
	Target float64
}

// Solution is the smallest threshold with which at most the target is denied.
type Solution struct {
	Policy    string  `json:"policy"`
	Limit     string  `json:"limit"`
	Target    float64 `json:"target"`
	Threshold int64   `json:"threshold"`
	// Denied is what all policies deny with the threshold, DeniedBelow with one less; nil if
	// one less is invalid.
	Denied      Row  `json:"denied"`
	DeniedBelow *Row `json:"deniedBelow,omitempty"`
}

func (s *Solution) text() string {
	text := fmt.Sprintf("threshold %d for limit %s of %s denies %s", s.Threshold, s.Limit, s.Policy, s.Denied.text())
	if s.DeniedBelow != nil {
		text += fmt.Sprintf("; %d denies %s", s.Threshold-1, s.DeniedBelow.text())
	}
	return text
}

// solver tries thresholds.
type solver struct {
	policies []*v1alpha1.RateLimitPolicy
	policy   int // the index of that with the limit
	limit    int
	goal     Goal
	options  Options
	tried    map[int64]*Report
}

// Solve finds the smallest threshold of the limit with which at most the target is denied, all
// else as written, and returns the report with it. It bisects: more is not denied with a larger
// threshold, except where blocks or other policies interfere, which it does not see.
func Solve(ctx context.Context, policies []*v1alpha1.RateLimitPolicy, goal Goal, o Options) (*Report, error) {
	s := &solver{policies: policies, goal: goal, options: o, tried: map[int64]*Report{}}
	if err := s.find(); err != nil {
		return nil, err
	}
	least, most := s.bounds()
	enough, err := s.search(ctx, least, most)
	if err != nil {
		return nil, err
	}
	report := s.tried[enough]
	report.Solution = &Solution{
		Policy: s.id(), Limit: s.written().Name, Target: goal.Target, Threshold: enough, Denied: report.Denied,
	}
	if below := s.tried[enough-1]; below != nil {
		report.Solution.DeniedBelow = &below.Denied
	}
	return report, nil
}

func (s *solver) id() string {
	p := s.policies[s.policy]
	return p.Namespace + "/" + p.Name
}

func (s *solver) written() *v1alpha1.Limit { return &s.policies[s.policy].Spec.Limits[s.limit] }

// find finds the limit, which must be the only one with that name.
func (s *solver) find() error {
	var found []string
	for i, p := range s.policies {
		for j := range p.Spec.Limits {
			name := p.Namespace + "/" + p.Name + "/" + p.Spec.Limits[j].Name
			if name == s.goal.Limit || strings.HasSuffix(name, "/"+s.goal.Limit) {
				s.policy, s.limit = i, j
				found = append(found, name)
			}
		}
	}
	switch len(found) {
	case 0:
		return fmt.Errorf("no policy has the limit %q", s.goal.Limit)
	case 1:
		return nil
	}
	return fmt.Errorf("several limits have the name %q: choose one of %s", s.goal.Limit, strings.Join(found, ", "))
}

// bounds returns the smallest and the largest valid threshold.
func (s *solver) bounds() (least, most int64) {
	least, most = 1, plan.Algorithm(s.written().Algorithm).MaxThreshold()
	if s.policies[s.policy].Spec.DenyWhen == v1alpha1.DenyWhenThresholdReached {
		least = 2
	}
	return least, most
}

// search returns the smallest threshold that is enough: it doubles until one is, and then bisects.
func (s *solver) search(ctx context.Context, least, most int64) (int64, error) {
	tooFew, enough := least-1, min(max(s.written().Threshold, least), most)
	for {
		ok, err := s.try(ctx, enough)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if enough == most || s.isIdle(enough) {
			return 0, fmt.Errorf("no threshold of limit %s denies at most %s: with %d, %s are denied",
				s.goal.Limit, percent(s.goal.Target), enough, s.tried[enough].Denied.text())
		}
		tooFew, enough = enough, min(enough*2, most)
	}
	for enough-tooFew > 1 {
		middle := tooFew + (enough-tooFew)/2
		ok, err := s.try(ctx, middle)
		if err != nil {
			return 0, err
		}
		if ok {
			enough = middle
		} else {
			tooFew = middle
		}
	}
	return enough, nil
}

// isIdle reports whether the threshold exceeds the number of requests, so that a larger one
// changes nothing.
func (s *solver) isIdle(threshold int64) bool { return threshold > s.tried[threshold].Lines }

// try reports whether the threshold is enough.
func (s *solver) try(ctx context.Context, threshold int64) (bool, error) {
	changed := s.policies[s.policy].DeepCopy()
	changed.Spec.Limits[s.limit].Threshold = threshold
	policies := slices.Clone(s.policies)
	policies[s.policy] = changed
	plans, err := Compile(policies)
	if err != nil {
		return false, fmt.Errorf("threshold %d: %w", threshold, err)
	}
	report, err := Run(ctx, plans, s.options)
	if err != nil {
		return false, err
	}
	s.tried[threshold] = report
	return report.Denied.Share <= s.goal.Target, nil
}

// refuseUnreplayable returns an error for a policy that a log cannot answer: a log does not contain when requests end.
func refuseUnreplayable(p *plan.Plan) error {
	if p.Reservations.Cost != "" {
		return fmt.Errorf("policy %s: spec.reservations.cost cannot be replayed, because the log does not contain when requests end", p.ID())
	}
	for i := range p.Limits {
		if p.Limits[i].Algorithm == plan.Concurrency {
			return fmt.Errorf("policy %s: spec.limits[%d].algorithm: Concurrency cannot be replayed, because the log does not contain when requests end", p.ID(), i)
		}
	}
	return nil
}

// Compile compiles the policies, for logs of any time. Grants do not matter to a backtest.
func Compile(policies []*v1alpha1.RateLimitPolicy) (plans []*plan.Plan, err error) {
	now := time.Now() //nolint:forbidigo // the last times of logs
	var errs []error
	for _, p := range policies {
		compiled, problems := compile.Compile(p, compile.Everything(), now)
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("policy %s/%s: %w", p.Namespace, p.Name, problem))
		}
		if compiled != nil {
			errs = append(errs, refuseUnreplayable(compiled), addOffsets(compiled, now))
		}
		plans = append(plans, compiled)
	}
	return plans, errors.Join(errs...)
}

// addOffsets gives the calendars of the plan the offsets of their time zones since 1970. A plan for requests of today
// has the offsets of two years.
func addOffsets(p *plan.Plan, now time.Time) error {
	for i := range p.Limits {
		c := p.Limits[i].Calendar
		if c == nil {
			continue
		}
		zone, err := time.LoadLocation(c.TimeZone)
		if err != nil {
			return fmt.Errorf("policy %s: %w", p.ID(), err)
		}
		c.OffsetSeconds, c.Shifts = plan.ZoneOffsets(zone, time.Unix(0, 0), now.AddDate(1, 0, 0))
	}
	return nil
}
