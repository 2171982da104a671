// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/conform/history"
	"github.com/weir-dev/weir/test/conform/scenario"
	"github.com/weir-dev/weir/test/conform/system"
)

// defects of a limiter in this process. Without one, it admits what its quotas allow, in rolling windows.
type defects struct {
	generous    bool          // one unit more than the quota
	apart       bool          // each instance counts by itself
	countDenied bool          // denied requests count
	oneByOne    bool          // each limit of a request counts by itself
	separator   string        // joins the parts of a key
	fold        bool          // keys are compared without case
	hurried     time.Duration // announced resets are too early by this
	deaf        bool          // edits have no effect
	aligned     bool          // windows are aligned to the clock
	shy         bool          // one unit less than the quota
}

// limiter is a System without processes.
type limiter struct {
	defects
	mu       sync.Mutex
	limits   []system.Limit
	admitted map[string][]spent
}

type spent struct {
	at    time.Time
	units int64
}

func (*limiter) Name() string { return "limiter" }

func (l *limiter) Description() system.Description {
	return system.Description{Windows: history.Rolling}
}

func (l *limiter) Start(_ context.Context, _ *system.Environment, o system.Options) (system.Cluster, error) {
	l.limits, l.admitted = o.Limits, map[string][]spent{}
	return l, nil
}

func (l *limiter) Edit(limits []system.Limit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.deaf {
		l.limits = limits
	}
	return nil
}

func (*limiter) Instance(int) *system.Process        { return nil }
func (*limiter) Store() (system.Store, error)        { return nil, system.ErrUnsupported }
func (l *limiter) Client(instance int) system.Client { return &client{limiter: l, instance: instance} }

type client struct {
	*limiter
	instance int
}

func (c *client) Ask(_ context.Context, r system.Request) (system.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	answer := system.Answer{Admitted: true}
	for _, d := range r.Descriptors {
		if until := c.fullUntil(d, r.Units, now); !until.IsZero() {
			answer.Admitted = false
			answer.Reset = new(max(0, until.Sub(now)-c.hurried))
		} else if c.oneByOne {
			c.spend(d, r.Units, now)
		}
	}
	if !c.oneByOne && (answer.Admitted || c.countDenied) {
		for _, d := range r.Descriptors {
			c.spend(d, r.Units, now)
		}
	}
	return answer, nil
}

func (c *client) key(d system.Descriptor) string {
	key := fmt.Sprintf("%q", d)
	if c.separator != "" {
		var parts []string
		for _, entry := range d {
			parts = append(parts, entry.Key, entry.Value)
		}
		key = strings.Join(parts, c.separator)
	}
	if c.fold {
		key = strings.ToLower(key)
	}
	if c.apart {
		key = fmt.Sprint(c.instance, key)
	}
	return key
}

func (c *client) spend(d system.Descriptor, units uint32, now time.Time) {
	key := c.key(d)
	c.admitted[key] = append(c.admitted[key], spent{now, int64(units)})
}

// fullUntil returns when the first units leave the window, zero if there is room.
func (c *client) fullUntil(d system.Descriptor, units uint32, now time.Time) (until time.Time) {
	for _, limit := range c.limits {
		if len(limit.Keys) != len(d) || limit.Keys[0] != d[0].Key {
			continue
		}
		quota := int64(limit.Units)
		if c.generous {
			quota++
		}
		if c.shy {
			quota--
		}
		begin := now.Add(-limit.Window)
		if c.aligned {
			begin = now.Truncate(limit.Window).Add(-1)
		}
		var used int64
		for _, s := range c.admitted[c.key(d)] {
			if s.at.After(begin) {
				used += s.units
				if until.IsZero() {
					until = s.at.Add(limit.Window)
				}
			}
		}
		if used+int64(units) <= quota {
			return time.Time{}
		}
		if until.IsZero() {
			until = now.Add(limit.Window)
		}
	}
	return until
}

// tested are the scenarios that need no process.
var tested = []string{"exact-1", "exact-2", "exact-4", "edge", "hot-key", "costs", "several", "keys", "reset", "edit", "clocks"}

// runOn runs the scenario and returns the violation and the result.
func runOn(tb testing.TB, l *limiter, name string) (string, *scenario.Result) {
	tb.Helper()
	for _, s := range scenario.All() {
		if s.Name == name {
			result, err := s.Run(tb.Context(), l, scenario.Settings{Keys: 100, Rounds: 1})
			NewWithT(tb).Expect(err).NotTo(HaveOccurred())
			return s.Violation(result), result
		}
	}
	tb.Fatalf("no scenario %s", name)
	return "", nil
}

// A limiter without defects passes every scenario.
func TestExactLimiterPasses(t *testing.T) {
	for _, name := range tested {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			violation, result := runOn(t, &limiter{}, name)
			g.Expect(violation).To(BeEmpty())
			g.Expect(result.Over).To(BeZero())
			g.Expect(result.Counts.Admitted).To(BeNumerically(">", 0))
			g.Expect(result.Counts.Denied).To(BeNumerically(">", 0))
		})
	}
}

// Each defect is found by the scenarios that are made for it.
func TestDefectsAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		defects
		scenarios []string
		violation string
	}{
		"one unit too many":       {defects{generous: true}, []string{"exact-1", "exact-2", "exact-4", "hot-key", "edge", "keys", "clocks", "costs"}, "over the quota"},
		"one unit too few":        {defects{shy: true}, []string{"exact-1", "edge", "costs", "several"}, "though there was room"},
		"counters of instances":   {defects{apart: true}, []string{"exact-2", "exact-4", "hot-key", "costs", "several"}, "over the quota"},
		"denied requests count":   {defects{countDenied: true}, []string{"costs", "several"}, "though there was room"},
		"limits one by one":       {defects{oneByOne: true}, []string{"several"}, "though there was room"},
		"keys joined by _":        {defects{separator: "_"}, []string{"keys"}, "though there was room"},
		"keys joined by 0":        {defects{separator: "\x00"}, []string{"keys"}, "though there was room"},
		"keys without case":       {defects{fold: true}, []string{"keys"}, "though there was room"},
		"windows of another kind": {defects{aligned: true}, []string{"edge"}, "over the quota"},
	} {
		for _, s := range tc.scenarios {
			t.Run(name+"/"+s, func(t *testing.T) {
				t.Parallel()
				violation, _ := runOn(t, &limiter{defects: tc.defects}, s)
				NewWithT(t).Expect(violation).To(ContainSubstring(tc.violation))
			})
		}
	}
}

// The figures of reset show for how long requests are still denied after the announced time.
func TestResetMeasuresAnnouncements(t *testing.T) {
	g := NewWithT(t)
	_, result := runOn(t, &limiter{defects: defects{hurried: 300 * time.Millisecond}}, "reset")
	g.Expect(result.Figures).To(HaveLen(2))
	g.Expect(result.Figures[0].Name).To(Equal("reset"))
	g.Expect(result.Figures[0].Value).To(MatchRegexp(`^denied for (29\d|3\d\d|[4-9]\d\d) ms after it`))
	g.Expect(result.Figures[1]).To(Equal(scenario.Figure{Name: "Retry-After", Value: "not announced"}))
}

// A limiter that ignores an edit is an error, not a result.
func TestEditIsAwaited(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // busy: the end is awaited
	defer cancel()
	for _, s := range scenario.All() {
		if s.Name == "edit" {
			_, err := s.Run(ctx, &limiter{defects: defects{deaf: true}}, scenario.Settings{Keys: 1, Rounds: 1})
			NewWithT(t).Expect(errors.Is(err, context.DeadlineExceeded)).To(BeTrue())
		}
	}
}
