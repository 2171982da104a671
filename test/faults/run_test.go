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

// The quotas of the policies.
const (
	quota       = 300
	secondQuota = 20
	slicedQuota = 750
)

// slicedPolicies are the policies with slices.
var slicedPolicies = []string{"sliced", "rolling"}

// slicedAge is the longest time that a replica spends from a slice.
const slicedAge = time.Second

// enoughSliced is how many checks slices decide in each run, so that the run is about slices, too.
const enoughSliced = 200

// system is the processes under load, and what can break them.
type system struct {
	redisURL string
	command  []string // of weir; nil is standalone on redisURL
	args     []string // of weir, after the arguments of the command
	weirs    int      // the number of processes; 0 is 1
	urls     []string // of their Redis, if they differ
	// retired is the number of the last processes that are not used after the fault.
	retired int
	begin   func() // begins the fault
	end     func() // ends it; may be nil
	// lost returns what a failover lost of the counters; nil if an incident may lose all of them.
	lost func(records []record) units
	// wasSlow reports whether the fault took longer than decisions wait, because the machine was busy; nil if that
	// makes no difference.
	wasSlow func() bool

	processes []*weir // set when they run
	load      *load   // likewise; nil in the soak
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
	meanwhile      int // the calls of which during is the p99
	// over and under are the units admitted beyond, or short of, the quotas, under without slices.
	over, under int64
	// sliced is the checks that slices decided, and unspent the units that slices took and lost.
	sliced  int
	unspent int64
}

// storeTimeout is the time that decisions wait for Redis.
func (f *fault) storeTimeout() time.Duration {
	switch {
	case f.degrades:
		return storeTimeout
	case f.mayDegrade:
		return lossyTimeout
	default:
		return patientTimeout
	}
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
		args = slices.Concat(args, s.args, []string{"--store-timeout", f.storeTimeout().String()})
		s.processes = append(s.processes, startProcess(t, args...))
	}
	for _, w := range s.processes {
		await(t, "the policies", func() bool { return w.threshold("many") > 0 })
	}
	unrecorded := s.degraded() // reads of the policies, on a busy machine
	l := startLoad(t, s.processes...)
	await(t, "calls before the fault", func() bool { return len(l.all()) > 800 })
	for i := range s.processes {
		l.awaitSlice(i)
	}
	s.load = l
	began := time.Now()
	s.begin()
	var waited float64
	if f.degrades {
		await(t, "the first second", func() bool { return time.Since(began) > time.Second })
		waited = s.degraded(timeouts)
	}
	await(t, "the length of the fault", func() bool { return time.Since(began) > f.length })
	if s.end != nil {
		s.end()
	}
	l.retire(s.retired)
	ended := time.Now()
	if f.degrades {
		waited = s.degraded(timeouts) - waited
	}
	await(t, "the end of all quotas", func() bool { return l.exhausted(ended) })
	l.awaitSliced()
	l.stop()
	r := f.judge(t, l.all(), began, ended, s)
	if f.degrades {
		NewWithT(t).Expect(waited).To(BeNumerically("<=", float64(r.meanwhile)/100), "calls of %d that waited for Redis", r.meanwhile)
	}
	if !f.drops {
		NewWithT(t).Expect(s.degraded()-unrecorded).To(BeEquivalentTo(r.degraded), "the metric counts every degraded answer")
	}
	return r
}

// timeouts is the label of degraded decisions that Redis did not answer in time.
const timeouts = `cause="timeout"`

// degraded returns the number of degraded decisions with the labels, of all processes.
func (s *system) degraded(labels ...string) (n float64) {
	for _, w := range s.processes {
		n += w.metric("weir_degraded_decisions_total", labels...)
	}
	return n
}

// await waits until the condition holds.
func await(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	NewWithT(tb).Eventually(condition, "60s", "20ms").Should(BeTrue(), what)
}

// exhausted reports whether, since the time, each hourly quota has denied calls, and Redis has recovered two seconds
// ago.
func (l *load) exhausted(since time.Time) bool {
	records := l.all()
	denied := map[counter]int{}
	for _, r := range records {
		if r.start.After(since) && !r.allowed && r.degraded == "" && !r.failed && !r.waits {
			denied[counter{r.policy, r.key}]++
		}
	}
	for _, c := range accounted() {
		if denied[c] < 3 {
			return false
		}
	}
	return time.Since(since.Add(recoveryOf(records, since))) > 2*time.Second
}

// recoveryOf returns the time from the end of the fault until a second begins in which Redis decided everything. A pause of
// a busy machine may make a single check time out later.
func recoveryOf(records []record, ended time.Time) (recovery time.Duration) {
	var late []time.Duration
	for i := range records {
		if after := records[i].end.Sub(ended); records[i].degraded != "" && after > 0 {
			late = append(late, after)
		}
	}
	slices.Sort(late)
	for _, after := range late {
		if after > recovery+time.Second {
			break
		}
		recovery = after
	}
	return recovery
}

// judge measures and checks the history of the load on the system.
func (f *fault) judge(t *testing.T, records []record, began, ended time.Time, s *system) *result {
	t.Helper()
	g := NewWithT(t)
	r := account(records)
	r.fault = f
	r.recovery = recoveryOf(records, ended)
	g.Expect(r.recovery).To(BeNumerically("<", recoveryTime), "time until Redis decides again")
	judgeVerdicts(g, records, r.over, f.incidents, len(s.processes))
	g.Expect(r.sliced).To(BeNumerically(">", enoughSliced), "checks that slices decided")
	if s.lost != nil {
		lost := s.lost(records)
		t.Logf("not replicated: %v, beyond the quotas: %v", lost, beyond(records, quotaOf, nil))
		g.Expect(beyond(records, quotaOf, lost)).To(BeEmpty(), "units beyond the quotas and what was lost")
	}
	r.before = percentile(filter(records, func(c *record) bool { return c.end.Before(began) }), 0.99)
	meanwhile := filter(records, func(c *record) bool { return c.start.After(began.Add(time.Second)) && c.end.Before(ended) })
	r.meanwhile, r.during = len(meanwhile), percentile(meanwhile, 0.99)
	switch {
	case f.mayDegrade, s.wasSlow != nil && s.wasSlow():
	case !f.degrades:
		g.Expect(r.degraded).To(BeZero(), "degraded answers")
	default:
		g.Expect(r.degraded).To(BeNumerically(">", 0), "degraded answers")
	}
	if !f.drops {
		g.Expect(failures(records)).To(BeEmpty(), "calls without an answer")
	}
	return r
}

// failures returns why calls had no answer, and when they were sent.
func failures(records []record) (all []string) {
	for i := range records {
		if c := &records[i]; c.failed {
			all = append(all, c.start.Format(time.RFC3339Nano)+" "+c.policy+": "+c.failure)
		}
	}
	return all
}

// judgeVerdicts checks that answers without Redis follow the failure mode, and that limits are exceeded
// by one quota for each incident at most. With Local, each process admits one quota more while it
// decides alone: its share is the quota if it is started as the only replica, and less beside others.
func judgeVerdicts(g *WithT, records []record, over, incidents int64, processes int) {
	for i := range records {
		if c := &records[i]; c.degraded != "" && c.policy != "local" {
			g.Expect(c.allowed).To(Equal(c.policy != "closed"), "the failure mode of %s", c.policy)
		}
	}
	g.Expect(over).To(BeNumerically("<=", incidents*(2*keys*quota+secondQuota+2*slicedQuota)), "units beyond the quotas")
	for _, policy := range slicedPolicies {
		g.Expect(overSliced(records, policy)).To(BeNumerically("<=", incidents*slicedQuota), "units beyond the quota of %s", policy)
	}
	for i := range keys {
		key := fmt.Sprint("key-", i)
		for _, policy := range []string{"open", "closed", "local"} {
			over := overAdmitted(of(records, policy, key), quota, time.Hour)
			g.Expect(over).To(BeNumerically("<=", incidents*quota), "units beyond the quota of one key of %s", policy)
		}
		alone := filter(of(records, "local", key), func(c *record) bool { return c.degraded != "" })
		for i := range alone {
			alone[i].degraded = "" // the checker leaves out what a failure mode admits
		}
		g.Expect(overAdmitted(alone, int64(processes)*quota, time.Hour)).To(BeZero(), "units beyond the shares of the processes")
	}
}

// overSliced returns the units beyond the quota of a policy with slices.
func overSliced(records []record, policy string) int64 {
	window := map[string]time.Duration{"sliced": time.Hour, "rolling": 10 * time.Second}[policy]
	return overAdmitted(of(records, policy, "key"), slicedQuota, window)
}

func of(records []record, policy, key string) []record {
	return filter(records, func(c *record) bool { return c.policy == policy && c.key == key })
}

// accounted returns the counters with an hourly quota of which every unit is accounted for: all but the keys of
// local, for which a failure mode counts, too. They are exhausted in the end.
func accounted() []counter {
	return slices.DeleteFunc(hourly(), func(c counter) bool { return c.policy == "local" })
}

// account counts the calls, and what was admitted beyond, or short of, the quotas.
func account(records []record) *result {
	r := &result{calls: len(records)}
	for i := range records {
		if records[i].failed {
			r.failed++
		}
		if records[i].degraded != "" {
			r.degraded++
		}
		if records[i].fromSlice {
			r.sliced++
		}
	}
	for _, c := range accounted() {
		short := quotaOf(c) - admittedUnits(of(records, c.policy, c.key))
		r.over += max(0, -short)
		if c.policy == "sliced" {
			r.unspent += max(0, short)
		} else {
			r.under += max(0, short)
		}
	}
	r.over += overAdmitted(of(records, "second", "key"), secondQuota, time.Second) + overSliced(records, "rolling")
	return r
}
