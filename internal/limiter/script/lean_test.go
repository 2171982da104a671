// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// leanAlgorithms are those that lean.lua decides.
var leanAlgorithms = slices.DeleteFunc(slices.Clone(allAlgorithms), func(a Algorithm) bool { return !luaOf(a).lean })

// The log of a key in constant use loses hits in most batches, and gets several in some.
func TestBusyLogsAgreeWithModel(t *testing.T) {
	for _, algorithm := range []Algorithm{SlidingLog, SlidingWindow} {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			r := rand.New(rand.NewPCG(1, 17))
			model := newModelBackend()
			server, client := newServerBackend(t, servers[0])
			store := newStore(client)
			limit := Limit{
				Name: "l", Algorithm: algorithm, Quota: 12, Threshold: 12, Window: 50 * time.Millisecond, Bucket: 4 * time.Millisecond,
			}
			policy := NewPolicy("test/p", false, false, []Limit{limit})
			now := server.clock.Now()
			for step := range 3000 {
				now = now.Add(time.Duration(r.IntN(16)) * time.Millisecond)
				if r.IntN(100) == 0 {
					now = now.Add(-time.Duration(r.IntN(200)) * time.Millisecond)
				}
				model.setTime(t, now)
				server.setTime(t, now)
				var batch []*pending
				for range 1 + r.IntN(3) {
					entry := Entry{Policy: policy, Key: Key([]string{"a", "a", "b"}[r.IntN(3)]), Cost: 1 + r.Int64N(4)}
					batch = append(batch, &pending{call: &Call{Entries: []Entry{entry}}})
				}
				gather(batch)
				for i, o := range store.send(t.Context(), batch) {
					want := model.evaluate(t, batch[i].call.Clone())
					g.Expect(differenceOf(decoded(t, batch[i], o).Reply, want)).To(BeEmpty(), "step %d, call %d", step, i)
				}
			}
		})
	}
}

// Equal checks of a batch are decided in order: one that starts a block denies those after it, even of a
// smaller cost.
func TestABlockDeniesTheRestOfItsBatch(t *testing.T) {
	g := NewWithT(t)
	_, client := newServerBackend(t, servers[0])
	store := newStore(client)
	limit := SlowLimit(FixedWindow, 5)
	limit.Block = time.Hour
	policy := NewPolicy("test/p", false, false, []Limit{limit})
	var batch []*pending
	for _, cost := range []int64{3, 4, 1} {
		batch = append(batch, &pending{call: &Call{Entries: []Entry{{Policy: policy, Key: "a", Cost: cost}}}})
	}
	var verdicts []Verdict
	for i, o := range store.send(t.Context(), batch) {
		verdicts = append(verdicts, decoded(t, batch[i], o).Entries[0].Verdict)
	}
	g.Expect(verdicts).To(Equal([]Verdict{Admitted, Tripped, Blocked}))
}

// What most requests ask for needs no general code: the reports are short.
func TestPlainCallsAreLean(t *testing.T) {
	_, client := newServerBackend(t, servers[0])
	store := newStore(client)
	for _, a := range leanAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			limit := SlowLimit(a, 9)
			plain := NewPolicy("test/plain-"+string(a), false, false, []Limit{limit})
			reserving := reservingPolicy("reserving-"+string(a), limit)
			for i, step := range []struct {
				policy *Policy
				action Action
				id     string
			}{
				{plain, Check, ""},
				{plain, Check, ""},
				{reserving, Check, ""},
				{reserving, Check, ""},
				{reserving, Reserve, "one"},
				{reserving, Commit, "one"},
				{reserving, Reserve, "two"},
				{reserving, Reserve, "three"},
				{reserving, Commit, "two"},
				{reserving, Commit, "three"},
			} {
				batch := make([]*pending, 3)
				for n := range batch {
					entry := Entry{Policy: step.policy, Key: Key([]string{"a", "b", "c"}[n]), Cost: 1, Action: step.action, ID: step.id, TTL: time.Minute}
					batch[n] = &pending{call: &Call{Entries: []Entry{entry}}}
				}
				for _, o := range store.send(t.Context(), batch) {
					g := NewWithT(t)
					g.Expect(o.err).NotTo(HaveOccurred())
					g.Expect(o.values[0]).To(Satisfy(func(verdict int64) bool { return verdict&shortReport != 0 }), "step %d", i)
				}
			}
		})
	}
}

// Reservations that random steps rarely make agree with the model.
func TestRareReservationsAgreeWithModel(t *testing.T) {
	server, _ := newServerBackend(t, servers[0])
	model := newModelBackend()
	for _, a := range leanAlgorithms {
		limit := SlowLimit(a, 9)
		longer := limit
		longer.Name, longer.Window, longer.Bucket = "longer", 2*limit.Window, 2*limit.Bucket
		for name, tc := range map[string]struct {
			spent  int64
			limits []Limit
		}{
			"units used for longer than held": {8, []Limit{limit}},
			"two limits":                      {1, []Limit{limit, longer}},
		} {
			t.Run(string(a)+", "+name, func(t *testing.T) {
				g := NewWithT(t)
				server.clear(t)
				model.clear(t)
				policy, now := reservingPolicy("rare", tc.limits...), server.clock.Now()
				for _, entry := range []Entry{
					{Cost: tc.spent}, {Cost: 1, Action: Reserve, ID: "one", TTL: time.Second}, {Cost: 1, Action: Commit, ID: "one"},
				} {
					now = now.Add(time.Millisecond)
					model.setTime(t, now)
					server.setTime(t, now)
					entry.Policy, entry.Key = policy, "a"
					call := &Call{Entries: []Entry{entry}}
					g.Expect(differenceOf(server.evaluate(t, call), model.evaluate(t, call))).To(BeEmpty(), describe(call))
				}
			})
		}
	}
}
