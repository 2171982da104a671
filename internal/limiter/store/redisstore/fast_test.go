// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// fastAlgorithms are those that fast.lua decides.
var fastAlgorithms = slices.DeleteFunc(slices.Clone(allAlgorithms), func(a store.Algorithm) bool { return bindingOf(a).fast == nil })

// The log of a key in constant use loses hits in most batches, and gets several in some.
func TestBusyLogsAgreeWithModel(t *testing.T) {
	for _, algorithm := range []store.Algorithm{store.SlidingLog, store.SlidingWindow} {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			r := rand.New(rand.NewPCG(1, 17))
			model := storetest.NewModel()
			server, client := newSubject(t, servers[0])
			backend := newStore(client)
			limit := store.Limit{
				Name: "l", Algorithm: algorithm, Quota: 12, Threshold: 12, Window: 50 * time.Millisecond, Bucket: 4 * time.Millisecond,
			}
			policy := store.NewPolicy("test/p", false, false, []store.Limit{limit})
			now := server.Clock.Now()
			for step := range 3000 {
				now = now.Add(time.Duration(r.IntN(16)) * time.Millisecond)
				if r.IntN(100) == 0 {
					now = now.Add(-time.Duration(r.IntN(200)) * time.Millisecond)
				}
				model.SetTime(t, now)
				server.SetTime(t, now)
				var batch []*pending
				for range 1 + r.IntN(3) {
					entry := store.Entry{Policy: policy, Key: store.Key([]string{"a", "a", "b"}[r.IntN(3)]), Cost: 1 + r.Int64N(4)}
					batch = append(batch, pendingOf(t, &store.Call{Entries: []store.Entry{entry}}))
				}
				gather(batch)
				for i, o := range backend.send(t.Context(), batch) {
					want := model.MustEvaluate(t, batch[i].call.Clone())
					g.Expect(storetest.DifferenceOf(decoded(t, batch[i], o).Reply, want)).To(BeEmpty(), "step %d, call %d", step, i)
				}
			}
		})
	}
}

// Equal checks of a batch are decided in order: one that starts a block denies those after it, even of a
// smaller cost.
func TestABlockDeniesTheRestOfItsBatch(t *testing.T) {
	g := NewWithT(t)
	_, client := newSubject(t, servers[0])
	backend := newStore(client)
	limit := storetest.SlowLimit(store.FixedWindow, 5)
	limit.Block = time.Hour
	policy := store.NewPolicy("test/p", false, false, []store.Limit{limit})
	var batch []*pending
	for _, cost := range []int64{3, 4, 1} {
		batch = append(batch, pendingOf(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: cost}}}))
	}
	var verdicts []store.Verdict
	for i, o := range backend.send(t.Context(), batch) {
		verdicts = append(verdicts, decoded(t, batch[i], o).Entries[0].Verdict)
	}
	g.Expect(verdicts).To(Equal([]store.Verdict{store.Admitted, store.BlockStarted, store.Blocked}))
}

// Checks of policies with and without reservations need no general path: the reports are short.
func TestPlainChecksTakeTheFastPath(t *testing.T) {
	_, client := newSubject(t, servers[0])
	backend := newStore(client)
	for _, a := range fastAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			limit := storetest.SlowLimit(a, 9)
			plain := store.NewPolicy("test/plain-"+string(a), false, false, []store.Limit{limit})
			reserving := storetest.ReservingPolicy("reserving-"+string(a), limit)
			for i, policy := range []*store.Policy{plain, plain, reserving, reserving} {
				batch := make([]*pending, 3)
				for n := range batch {
					batch[n] = pendingOf(t, storetest.SpendOne(policy, store.Key([]string{"a", "b", "c"}[n])))
				}
				for _, o := range backend.send(t.Context(), batch) {
					g := NewWithT(t)
					g.Expect(o.err).NotTo(HaveOccurred())
					g.Expect(o.values[0]).To(Satisfy(func(verdict int64) bool { return verdict&reportShort != 0 }), "batch %d", i)
				}
			}
		})
	}
}

// Admitted checks of a key with holds need no general path, once each counter has a window.
func TestChecksBesideHoldsTakeTheFastPath(t *testing.T) {
	_, client := newSubject(t, servers[0])
	backend := newStore(client)
	for _, a := range fastAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			policy := storetest.ReservingPolicy("beside-"+string(a), storetest.SlowLimit(a, 9))
			check := storetest.SpendOne(policy, "a")
			hold := check.Clone()
			hold.Entries[0].Action, hold.Entries[0].ID, hold.Entries[0].TTL = store.Reserve, "one", time.Hour
			short := func(call *store.Call) bool {
				batch := []*pending{pendingOf(t, call)}
				o := backend.send(t.Context(), batch)[0]
				g.Expect(o.err).NotTo(HaveOccurred())
				return o.values[0].(int64)&reportShort != 0 //nolint:forcetypeassert // a verdict
			}
			g.Expect(short(check)).To(BeTrue(), "without holds")
			g.Expect(short(hold)).To(BeFalse(), "a hold")
			g.Expect(short(check)).To(BeTrue(), "beside a hold")
		})
	}
}

// A window that begins and ends while a hold is open gets the units of the hold, if that ends within it; and a
// counter that is not a count is replaced beside a hold as without one.
func TestWindowsBesideHoldsAgreeWithModel(t *testing.T) {
	server, client := newSubject(t, servers[0])
	model := storetest.NewModel()
	limit := store.Limit{Name: "l", Algorithm: store.FixedWindow, Quota: 9, Threshold: 9, Window: time.Second}
	policy := storetest.ReservingPolicy("window", limit)
	start := server.Clock.Now()
	call := func(t *testing.T, after time.Duration, entry store.Entry) {
		t.Helper()
		model.SetTime(t, start.Add(after))
		server.SetTime(t, start.Add(after))
		entry.Policy, entry.Key = policy, "a"
		call := &store.Call{Entries: []store.Entry{entry}}
		NewWithT(t).Expect(storetest.DifferenceOf(server.MustEvaluate(t, call), model.MustEvaluate(t, call.Clone()))).To(BeEmpty(), storetest.Describe(call))
	}
	reserve := store.Entry{Cost: 3, Action: store.Reserve, ID: "one", TTL: 2500 * time.Millisecond}
	t.Run("a window", func(t *testing.T) {
		call(t, 0, reserve)
		call(t, 2*time.Second, store.Entry{Cost: 1}) // until 3 s
		call(t, 3400*time.Millisecond, store.Entry{Cost: 1})
	})
	t.Run("a value of another form", func(t *testing.T) {
		g := NewWithT(t)
		server.Clear(t)
		model.Clear(t)
		call(t, 0, reserve)
		call(t, 0, store.Entry{Cost: 1})
		counter := client.Keys(t.Context(), "*:fw:*").Val()
		g.Expect(counter).To(HaveLen(1))
		g.Expect(client.Set(t.Context(), counter[0], "2e0", time.Second).Err()).To(Succeed())
		reply := server.MustEvaluate(t, storetest.SpendOne(policy, "a"))
		g.Expect(reply.Entries[0].Limits[0].Used).To(BeEquivalentTo(3+1), "it counts as missing")
		g.Expect(client.Get(t.Context(), counter[0]).Val()).To(Equal("1"))
	})
}

// Reservations that random steps rarely make agree with the model.
func TestRareReservationsAgreeWithModel(t *testing.T) {
	server, _ := newSubject(t, servers[0])
	model := storetest.NewModel()
	for _, a := range fastAlgorithms {
		limit := storetest.SlowLimit(a, 9)
		longer := limit
		longer.Name, longer.Window, longer.Bucket = "longer", 2*limit.Window, 2*limit.Bucket
		for name, tc := range map[string]struct {
			spent  int64
			limits []store.Limit
		}{
			"units used for longer than held": {8, []store.Limit{limit}},
			"two limits":                      {1, []store.Limit{limit, longer}},
		} {
			t.Run(string(a)+", "+name, func(t *testing.T) {
				g := NewWithT(t)
				server.Clear(t)
				model.Clear(t)
				policy, now := storetest.ReservingPolicy("rare", tc.limits...), server.Clock.Now()
				for _, entry := range []store.Entry{
					{Cost: tc.spent}, {Cost: 1, Action: store.Reserve, ID: "one", TTL: time.Second}, {Cost: 1, Action: store.Commit, ID: "one"},
				} {
					now = now.Add(time.Millisecond)
					model.SetTime(t, now)
					server.SetTime(t, now)
					entry.Policy, entry.Key = policy, "a"
					call := &store.Call{Entries: []store.Entry{entry}}
					g.Expect(storetest.DifferenceOf(server.MustEvaluate(t, call), model.MustEvaluate(t, call))).To(BeEmpty(), storetest.Describe(call))
				}
			})
		}
	}
}
