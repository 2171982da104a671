// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// ofCounter makes the call one of the counter, in the process.
func ofCounter(c counter, process int) func(*record) {
	return func(r *record) { r.policy, r.key, r.process = c.policy, c.key, process }
}

// A failover may admit what was not replicated, of each key for itself, and no unit more.
func TestCheckerOfFailovers(t *testing.T) {
	key0, key1 := counter{"open", "key-0"}, counter{"open", "key-1"}
	of0, of1 := ofCounter(key0, 0), ofCounter(key1, 0)
	threeOf0 := calls(at(0, 1, of0), at(1, 2, of0), at(2, 3, of0))
	for name, tc := range map[string]struct {
		records      []record
		old, replica units
		beyond       units
	}{
		"nothing":                        {nil, nil, nil, units{}},
		"the quota":                      {calls(at(0, 1, of0), at(1, 2, of0)), units{key0: 2}, units{key0: 2}, units{}},
		"one more, all replicated":       {threeOf0, units{key0: 2}, units{key0: 2}, units{key0: 1}},
		"one more, one not replicated":   {threeOf0, units{key0: 2}, units{key0: 1}, units{}},
		"one more, another key was lost": {threeOf0, units{key0: 1, key1: 1}, units{key0: 1}, units{key0: 1}},
		"two more, one not replicated":   {append(threeOf0, at(3, 4, of0)), units{key0: 2}, units{key0: 1}, units{key0: 1}},
		"both keys":                      {append(threeOf0, at(3, 4, of1, costing3)), units{key0: 1}, nil, units{key1: 1}},
		"the replica counted lost calls": {threeOf0, units{key0: 1}, units{key0: 2}, units{key0: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(beyond(tc.records, 2, unreplicated(tc.old, tc.replica))).To(Equal(tc.beyond))
		})
	}
}

func TestAdmissionsOfAnOldMaster(t *testing.T) {
	g := NewWithT(t)
	key0, key1 := counter{"open", "key-0"}, counter{"open", "key-1"}
	of0, of1 := ofCounter(key0, 0), ofCounter(key1, 1)
	records := calls(at(0, 1, of0), at(1, 9, of0, costing3), at(2, 3, of0, denied), at(2, 3, of1), at(5, 6, of0), at(6, 7, of1), at(7, 8, of1, open), at(8, 9, of1, lost))
	origin := at(0, 0).start
	g.Expect(admittedUntil(records, origin.Add(5*time.Millisecond), []counter{key0})).To(Equal(units{key0: 4}))
	g.Expect(lastAdmission(records, 0, origin)).To(Equal(5*time.Millisecond), "the first process")
	g.Expect(lastAdmission(records, 1, origin)).To(Equal(6*time.Millisecond), "the second process")
	g.Expect(lastAdmission(records, 2, origin)).To(BeZero(), "without calls")
}

// Counters are read only from a server in the role.
func TestCountersOfARole(t *testing.T) {
	g := NewWithT(t)
	s := startSingle(t)
	c := counter{"open", "key-0"}
	s.must(t, "SET", c.name(), 7)
	g.Expect(readCounters(t.Context(), s.admin, "master", hourly())).To(And(HaveLen(3*keys), HaveKeyWithValue(c, int64(7))))
	_, err := readCounters(t.Context(), s.admin, "slave", hourly())
	g.Expect(err).To(MatchError(errOtherRole))
	s.must(t, "SET", c.name(), "seven")
	_, err = readCounters(t.Context(), s.admin, "master", hourly())
	g.Expect(err).To(HaveOccurred())
}

// The tests read the counters that Weir writes.
func TestNamesOfCounters(t *testing.T) {
	s := startSingle(t)
	l := startLoad(t, startProcess(t, append(standalone(t, s.redis.URL), "--store-timeout", patientTimeout.String())...))
	await(t, "calls of every counter", func() bool { return len(l.all()) > 100 })
	l.stop()
	read, err := readCounters(t.Context(), s.admin, "master", hourly())
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read).To(Equal(admittedUntil(l.all(), time.Now(), hourly())))
}
