// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// quota and second are the quotas of the policies.
const (
	quota       = 300
	secondQuota = 20
)

// system is the processes under load, and what can break them.
type system struct {
	redisURL string
	command  []string // of weir; nil is standalone on redisURL
	args     []string // of weir, after those of the command
	weirs    int      // the number of processes; 0 is 1
	urls     []string // of their Redis, if they differ
	// retired is the number of the last processes that are not used after the fault.
	retired int
	begin   func() // begins the fault
	end     func() // ends it; may be nil

	processes []*weir // set when they run
}

// fault is one row of docs/reliability.md.
type fault struct {
	name  string
	setup func(t *testing.T) *system
	// length is the time from begin to end.
	length time.Duration
	// incidents is how often counters may be lost: each may admit one more quota.
	incidents int64
	// degrades is true if failure modes decide meanwhile, and the callers do not wait for Redis.
	degrades bool
	// mayDegrade is true if failure modes may decide for a moment.
	mayDegrade bool
	// drops is true if calls may fail, because a process is killed.
	drops bool
}

// result is what the callers saw.
type result struct {
	fault    *fault
	calls    int
	degraded int
	failed   int
	// recovery is the time from the end of the fault to the last degraded answer.
	recovery time.Duration
	// before and during are the p99 of the calls, during from a second after the fault began.
	before, during time.Duration
	// over and under are the units admitted beyond, or short of, the quotas.
	over, under int64
}

// run runs the fault under load and judges the history.
func (f *fault) run(t *testing.T) *result {
	t.Helper()
	s := f.setup(t)
	for i := range max(1, s.weirs) {
		url := s.redisURL
		if s.urls != nil {
			url = s.urls[i]
		}
		args := s.command
		if args == nil {
			args = standalone(t, url)
		}
		args = slices.Concat(args, s.args)
		if !f.degrades {
			args = append(args, "--store-timeout", patientTimeout.String())
		}
		s.processes = append(s.processes, startProcess(t, args...))
	}
	for _, w := range s.processes {
		await(t, "the policies", func() bool { return w.threshold("many") > 0 })
	}
	l := startLoad(t, s.processes...)
	await(t, "calls before the fault", func() bool { return len(l.all()) > 800 })
	began := time.Now()
	s.begin()
	await(t, "the length of the fault", func() bool { return time.Since(began) > f.length })
	if s.end != nil {
		s.end()
	}
	l.retire(s.retired)
	ended := time.Now()
	await(t, "the end of all quotas", func() bool { return l.exhausted(ended) })
	l.stop()
	r := f.judge(t, l.all(), began, ended)
	if !f.drops {
		var counted float64
		for _, w := range s.processes {
			counted += w.metric("weir_degraded_decisions_total")
		}
		NewWithT(t).Expect(counted).To(BeEquivalentTo(r.degraded), "the metric counts every degraded answer")
	}
	return r
}

// await waits until the condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	NewWithT(t).Eventually(condition, "60s", "20ms").Should(BeTrue(), what)
}

// exhausted reports whether, since the time, each hourly quota has denied calls, and two seconds of
// calls were answered without a failure mode.
func (l *load) exhausted(since time.Time) bool {
	denied, settled := map[string]int{}, since
	for _, r := range l.all() {
		if r.degraded != "" && r.end.After(settled) {
			settled = r.end
		}
		if r.start.After(since) && !r.allowed && r.degraded == "" && !r.failed {
			denied[r.policy+r.key]++
		}
	}
	for _, policy := range []string{"open", "closed"} {
		for i := range keys {
			if denied[policy+fmt.Sprint("key-", i)] < 3 {
				return false
			}
		}
	}
	return time.Since(settled) > 2*time.Second
}

// judge measures and checks the history.
func (f *fault) judge(t *testing.T, records []record, began, ended time.Time) *result {
	t.Helper()
	g := NewWithT(t)
	r := account(records)
	r.fault = f
	for i := range records {
		if c := &records[i]; c.degraded != "" {
			r.recovery = max(r.recovery, c.end.Sub(ended))
			g.Expect(c.allowed).To(Equal(c.policy != "closed"), "the failure mode of %s", c.policy)
		}
	}
	g.Expect(r.over).To(BeNumerically("<=", f.incidents*(2*keys*quota+secondQuota)), "units beyond the quotas")
	for _, policy := range []string{"open", "closed"} {
		for i := range keys {
			over := overAdmitted(of(records, policy, fmt.Sprint("key-", i)), quota, time.Hour)
			g.Expect(over).To(BeNumerically("<=", f.incidents*quota), "units beyond the quota of one key")
		}
	}
	r.before = percentile(filter(records, func(c *record) bool { return c.end.Before(began) }), 0.99)
	r.during = percentile(filter(records, func(c *record) bool {
		return c.start.After(began.Add(time.Second)) && c.end.Before(ended)
	}), 0.99)
	switch {
	case f.mayDegrade:
	case !f.degrades:
		g.Expect(r.degraded).To(BeZero(), "degraded answers")
	default:
		g.Expect(r.degraded).To(BeNumerically(">", 0), "degraded answers")
		g.Expect(r.during).To(BeNumerically("<", storeTimeout), "callers do not wait for Redis")
	}
	if !f.drops {
		g.Expect(r.failed).To(BeZero(), "calls without an answer")
	}
	return r
}

func of(records []record, policy, key string) []record {
	return filter(records, func(c *record) bool { return c.policy == policy && c.key == key })
}

// account counts the calls, and what was admitted beyond, or short of, the quotas. All hourly quotas
// are exhausted in the end.
func account(records []record) *result {
	r := &result{calls: len(records)}
	for i := range records {
		if records[i].failed {
			r.failed++
		}
		if records[i].degraded != "" {
			r.degraded++
		}
	}
	for _, policy := range []string{"open", "closed"} {
		for i := range keys {
			admitted := admittedUnits(of(records, policy, fmt.Sprint("key-", i)))
			r.over += max(0, admitted-quota)
			r.under += max(0, quota-admitted)
		}
	}
	r.over += overAdmitted(of(records, "second", "key"), secondQuota, time.Second)
	return r
}
