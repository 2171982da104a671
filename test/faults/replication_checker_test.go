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
	counted := func(n0, n1 int64) map[counter]state { return map[counter]state{key0: {used: n0}, key1: {used: n1}} }
	holding := func(used, units int64) map[counter]state {
		return map[counter]state{key0: {used: used, held: map[string]int64{"slice": units}}}
	}
	threeOf0 := calls(at(0, 1, of0), at(1, 2, of0), at(2, 3, of0))
	for name, tc := range map[string]struct {
		records      []record
		old, replica map[counter]state
		beyond       units
	}{
		"nothing":                        {nil, nil, nil, units{}},
		"the quota":                      {calls(at(0, 1, of0), at(1, 2, of0)), counted(2, 0), counted(2, 0), units{}},
		"one more, all replicated":       {threeOf0, counted(2, 0), counted(2, 0), units{key0: 1}},
		"one more, one not replicated":   {threeOf0, counted(2, 0), counted(1, 0), units{}},
		"one more, another key was lost": {threeOf0, counted(1, 1), counted(1, 0), units{key0: 1}},
		"two more, one not replicated":   {append(threeOf0, at(3, 4, of0)), counted(2, 0), counted(1, 0), units{key0: 1}},
		"both keys":                      {append(threeOf0, at(3, 4, of1, costing3)), counted(1, 0), nil, units{key1: 1}},
		"the replica counted lost calls": {threeOf0, counted(1, 0), counted(2, 0), units{key0: 1}},
		"one more, a slice was lost":     {threeOf0, holding(1, 1), counted(1, 0), units{}},
		"one more, no slice was lost":    {threeOf0, holding(1, 1), holding(1, 1), units{key0: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(beyond(tc.records, func(counter) int64 { return 2 }, unreplicated(tc.old, tc.replica))).To(Equal(tc.beyond))
		})
	}
}

func TestAdmissionsOfAnOldMaster(t *testing.T) {
	g := NewWithT(t)
	key0, key1 := counter{"open", "key-0"}, counter{"open", "key-1"}
	of0, of1 := ofCounter(key0, 0), ofCounter(key1, 1)
	records := calls(at(0, 1, of0), at(1, 9, of0, costing3), at(2, 3, of0, denied), at(2, 3, of1), at(5, 6, of0), at(6, 7, of1), at(7, 8, of1, open), at(8, 9, of1, lost))
	origin := at(0, 0).start
	g.Expect(admittedUntil(records, origin.Add(5*time.Millisecond), []counter{key0})).To(Equal(map[counter]state{key0: {used: 4}}))
	late := calls(at(4, 5, of0, sliced), at(1003, 1004, of0, sliced), at(1004, 1005, of0, sliced))
	g.Expect(admittedUntil(late, origin.Add(4*time.Millisecond), []counter{key0})).To(Equal(map[counter]state{key0: {used: 2}}))
	g.Expect(lastAdmission(records, 0, origin)).To(Equal(5*time.Millisecond), "the first process")
	g.Expect(lastAdmission(records, 1, origin)).To(Equal(6*time.Millisecond), "the second process")
	g.Expect(lastAdmission(records, 2, origin)).To(BeZero(), "without calls")
}

// Counters are read only from a server in the role.
func TestCountersOfARole(t *testing.T) {
	g := NewWithT(t)
	s := startSingle(t)
	c := counter{"open", "key-0"}
	s.must(t, "SET", c.names()[0], 7)
	g.Expect(readCounters(t.Context(), s.admin, "master", hourly())).To(And(HaveLen(3*keys+1), HaveKeyWithValue(c, state{7, map[string]int64{}})))
	_, err := readCounters(t.Context(), s.admin, "slave", hourly())
	g.Expect(err).To(MatchError(errOtherRole))
	s.must(t, "SET", c.names()[0], "seven")
	_, err = readCounters(t.Context(), s.admin, "master", hourly())
	g.Expect(err).To(HaveOccurred())
}

// The tests read the counters and the slices that Weir writes. Weir returns its slices once no call comes.
func TestNamesOfCounters(t *testing.T) {
	s := startSingle(t)
	w := startProcess(t, append(standalone(t, s.redis.URL), "--store-timeout", patientTimeout.String())...)
	l := startLoad(t, w)
	g, slicedKey := NewWithT(t), counter{"sliced", "key"}
	read := func() map[counter]state {
		read, err := readCounters(t.Context(), s.admin, "master", hourly())
		g.Expect(err).NotTo(HaveOccurred())
		return read
	}
	await(t, "a slice", func() bool { return len(read()[slicedKey].held) > 0 })
	l.stop()
	await(t, "the end of all slices", func() bool { return len(read()[slicedKey].held) == 0 })
	admitted := admittedUntil(l.all(), time.Now(), hourly())
	for c, s := range read() {
		late := int64(0)
		if c == slicedKey {
			late = int64(w.metric("weir_slice_units_total", `outcome="lost"`))
		}
		g.Expect(s.used).To(And(BeNumerically(">=", admitted[c].used), BeNumerically("<=", admitted[c].used+late)), "%v", c)
	}
}
