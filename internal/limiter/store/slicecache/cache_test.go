// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/storetest"
)

// world is replicas of one store, with one clock for all.
type world struct {
	*memory.Store

	mu       sync.Mutex
	now      time.Time
	start    time.Time
	failing  atomic.Bool  // calls are not decided
	lost     atomic.Bool  // calls are decided, and their replies lost
	takes    atomic.Int64 // calls that take slices
	replicas []*Cache
}

var errLost = errors.New("lost")

func newWorld(replicas int, o Options) *world {
	w := &world{now: time.UnixMicro(1_900_000_000_000_000)}
	w.start = w.now
	w.Store = memory.NewStore(memory.Options{Keys: 100_000, Now: w.time})
	for range replicas {
		o.Store, o.Now = w, func() time.Duration { return w.time().Sub(w.start) }
		w.replicas = append(w.replicas, New(o))
	}
	return w
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Evaluate is the store of the replicas.
func (w *world) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	if call.Entries[0].Action == store.TakeSlice {
		w.takes.Add(1)
	}
	if w.failing.Load() {
		w.pass(50 * time.Millisecond)
		return nil, errLost
	}
	reply, err := w.Store.Evaluate(ctx, call)
	if w.lost.Load() {
		w.pass(50 * time.Millisecond)
		return nil, errLost
	}
	return reply, err
}

// check makes one check, and reports whether it was admitted, and from a slice.
func (w *world) check(t *testing.T, replica int, p *store.Policy, key store.Key, cost int64) (admitted, fromSlice bool) {
	t.Helper()
	reply, err := w.replicas[replica].Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: p, Key: key, Cost: cost}}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return reply.Entries[0].Verdict == store.Admitted, reply.FromSlice
}

// heat makes checks until the replica has a slice of the key, and returns their number.
func (w *world) heat(t *testing.T, replica int, p *store.Policy, key store.Key) (checks int64) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		checks++
		_, fromSlice := w.check(t, replica, p, key, 1)
		w.idle(replica)
		return fromSlice
	}, "30s", "1ms").Should(BeTrue())
	return checks
}

// idle waits until the replica exchanges nothing.
func (w *world) idle(replica int) { <-w.replicas[replica].inFlight.idle() }

func (w *world) state(t *testing.T, p *store.Policy, key store.Key) (used, held int64) {
	t.Helper()
	reply, err := w.Store.Evaluate(t.Context(), storetest.PeekOf(storetest.SpendOne(p, key)))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return reply.Entries[0].Limits[0].Used - reply.Entries[0].Held, reply.Entries[0].Held
}

func day(most int64) store.Limit {
	return store.Limit{Name: "day", Algorithm: store.FixedWindow, Quota: most, Threshold: most, Window: 24 * time.Hour}
}

// A key takes a slice from 20 checks in an age on, not before.
func TestColdKeysTakeNoSlices(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(1, Options{}), newPolicy("p", time.Second, day(10_000))
	for range 10 {
		for range 19 {
			w.check(t, 0, p, "a", 1)
		}
		w.pass(time.Second)
		w.idle(0)
	}
	g.Expect(w.takes.Load()).To(BeZero())
	g.Expect(w.heat(t, 0, p, "a")).To(BeEquivalentTo(21))
	g.Expect(w.takes.Load()).To(BeEquivalentTo(1))
}

// The numbers of a check from a slice are from the exchange, with what this replica has spent.
func TestRepliesFromSlices(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(2, Options{}), newPolicy("p", time.Second, day(10_000))
	w.check(t, 1, p, "a", 1000)
	spent := 1000 + w.heat(t, 0, p, "a")
	for range 5 {
		spent++
		w.pass(time.Millisecond)
		reply, err := w.replicas[0].Evaluate(t.Context(), storetest.SpendOne(p, "a"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reply.FromSlice).To(BeTrue())
		g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(spent))
		g.Expect(reply.Entries[0].Limits[0].ResetAfter).To(BeNumerically("~", 24*time.Hour, 2*time.Second))
		w.idle(0)
	}
	// Peeks are exact: what the slice holds is not free.
	used, held := w.state(t, p, "a")
	g.Expect(used + held).To(BeNumerically(">", spent))
}

// A slice ends after its age, by a clock that advances while the machine is suspended. It is then committed, and its hold
// is spent as a whole if that comes too late.
func TestSlicesEnd(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(1, Options{}), newPolicy("p", time.Second, day(10_000))
	spent := w.heat(t, 0, p, "a")
	_, held := w.state(t, p, "a")
	g.Expect(held).To(BeNumerically(">=", store.SmallestSlice))
	w.pass(time.Second)
	_, fromSlice := w.check(t, 0, p, "a", 1)
	g.Expect(fromSlice).To(BeFalse(), "its age has passed")
	w.replicas[0].sweep()
	w.idle(0)
	used, held := w.state(t, p, "a")
	g.Expect([]int64{used, held}).To(Equal([]int64{spent + 1, 0}))

	w.pass(time.Second)
	spent += 1 + w.heat(t, 0, p, "a")
	_, held = w.state(t, p, "a")
	w.pass(holdTime(p) + time.Millisecond) // suspended
	w.replicas[0].sweep()
	w.idle(0)
	used, rest := w.state(t, p, "a")
	g.Expect(used).To(And(BeNumerically(">", spent), BeNumerically("<=", spent+held)))
	g.Expect(rest).To(BeZero())
	g.Expect(testutil.ToFloat64(w.replicas[0].metrics.units.WithLabelValues(outcomeLost))).To(BeEquivalentTo(used - spent))
}

// A check that a slice has no room for returns the slice first: its own units must not deny it.
func TestLargeChecksReturnTheSlice(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(1, Options{}), newPolicy("p", time.Second, day(1000))
	spent := w.heat(t, 0, p, "a")
	admitted, fromSlice := w.check(t, 0, p, "a", 1000-spent)
	g.Expect([]bool{admitted, fromSlice}).To(Equal([]bool{true, false}))
	admitted, _ = w.check(t, 0, p, "a", 1)
	g.Expect(admitted).To(BeFalse())
}

// Checks that slices do not decide return the slices of their keys, peeks and other keys do not.
func TestOtherCalls(t *testing.T) {
	p := newPolicy("p", time.Second, day(10_000))
	plain := store.NewPolicy("test/plain", false, false, []store.Limit{day(10_000)})
	entry := store.Entry{Policy: p, Key: "a", Cost: 1}
	for name, tc := range map[string]struct {
		call    *store.Call
		returns bool
	}{
		"a chain with a policy without slices": {&store.Call{Entries: []store.Entry{entry, {Policy: plain, Key: "a", Cost: 1}}}, true},
		"a reserve":                            {&store.Call{Entries: []store.Entry{{Policy: p, Key: "a", Cost: 1, Action: store.Reserve, ID: "x", TTL: time.Second}}}, true},
		"a peek":                               {storetest.PeekOf(storetest.SpendOne(p, "a")), false},
		"a charge":                             {&store.Call{Entries: []store.Entry{{Policy: p, Key: "a", Cost: 1, Action: store.Charge}}}, false},
		"a check that is denied already":       {&store.Call{Denied: true, Entries: []store.Entry{entry}}, false},
		"a check of another key":               {storetest.SpendOne(p, "b"), false},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld(1, Options{})
			w.heat(t, 0, p, "a")
			reply, err := w.replicas[0].Evaluate(t.Context(), tc.call)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reply.FromSlice).To(BeFalse())
			_, held := w.state(t, p, "a")
			if tc.returns {
				g.Expect(held).To(BeZero())
			} else {
				g.Expect(held).To(BeNumerically(">", 0))
			}
		})
	}
}

// Reset and Block leave no slice on any replica that learns of them, and none that was being taken.
func TestOperatorsEndSlices(t *testing.T) {
	p := newPolicy("p", time.Second, day(10_000))
	for name, change := range map[string]func(context.Context, *Cache) error{
		"reset": func(ctx context.Context, c *Cache) error {
			_, err := c.Reset(ctx, p, "a")
			return err
		},
		"block": func(ctx context.Context, c *Cache) error { return c.Block(ctx, p, "a", time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld(2, Options{})
			w.heat(t, 0, p, "a")
			w.heat(t, 1, p, "a")
			g.Expect(change(t.Context(), w.replicas[0])).To(Succeed())
			w.replicas[1].Drop("a")
			for i := range w.replicas {
				w.idle(i)
				admitted, fromSlice := w.check(t, i, p, "a", 1)
				g.Expect(fromSlice).To(BeFalse())
				g.Expect(admitted).To(Equal(name == "reset"))
			}
			if name == "reset" {
				used, _ := w.state(t, p, "a")
				g.Expect(used).To(BeEquivalentTo(2))
			}
		})
	}
}

// An edit ends the slices of its policy, and no others.
func TestEditsEndSlices(t *testing.T) {
	g, w := NewWithT(t), newWorld(1, Options{})
	p, other := newPolicy("p", time.Second, day(10_000)), newPolicy("other", time.Second, day(10_000))
	spent := w.heat(t, 0, p, "a")
	w.heat(t, 0, other, "a")
	edited := newPolicy("p", time.Second, day(9000))
	w.replicas[0].Retain(func(q *store.Policy) bool { return q.IsVariantOf(edited) || q.IsVariantOf(other) })
	w.idle(0)
	used, held := w.state(t, p, "a")
	g.Expect([]int64{used, held}).To(Equal([]int64{spent, 0}))
	_, held = w.state(t, other, "a")
	g.Expect(held).To(BeNumerically(">", 0))
}

// Slices last through a short failure of the store. After a longer one the store decides, or fails.
func TestStoreFails(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(1, Options{}), newPolicy("p", time.Second, day(1_000_000))
	w.heat(t, 0, p, "a")
	w.heat(t, 0, p, "a")
	w.failing.Store(true)
	admitted, fromSlice := w.check(t, 0, p, "a", 1)
	g.Expect([]bool{admitted, fromSlice}).To(Equal([]bool{true, true}))
	w.pass(time.Second)
	_, err := w.replicas[0].Evaluate(t.Context(), storetest.SpendOne(p, "a"))
	g.Expect(err).To(MatchError(errLost))
	w.failing.Store(false)
	w.replicas[0].sweep()
	w.idle(0)
	w.pass(time.Second) // the key was paused
	w.heat(t, 0, p, "a")
}

// Lost replies change nothing: a take and a commit are repeated with their ID. A slice whose take was never answered is
// cancelled.
func TestLostReplies(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(1, Options{}), newPolicy("p", time.Second, day(10_000))
	spent := w.heat(t, 0, p, "a")
	k := w.replicas[0].keys.find(&storetest.SpendOne(p, "a").Entries[0])
	s := k.current.Load()
	w.lost.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.replicas[0].end(k, s, w.replicas[0].evaluate)
	}()
	g.Eventually(func() int64 { used, _ := w.state(t, p, "a"); return used }).Should(Equal(spent))
	<-done
	w.lost.Store(false)
	w.idle(0)
	used, held := w.state(t, p, "a")
	g.Expect([]int64{used, held}).To(Equal([]int64{spent, 0}))

	w.lost.Store(true)
	w.replicas[0].exchange(k, p, 100) // repeated until its slice would have ended
	w.lost.Store(false)
	w.idle(0)
	g.Expect(k.current.Load()).To(BeNil())
	g.Expect(testutil.ToFloat64(w.replicas[0].metrics.exchanges.WithLabelValues(outcomeFailed))).To(BeEquivalentTo(1))
	w.pass(2 * time.Second)
	used, held = w.state(t, p, "a")
	g.Expect(held).To(BeZero())
	g.Expect(used).To(BeNumerically(">=", spent))
}

// A replica has slices of a limited number of keys, and of hotter ones first.
func TestMostKeys(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(1, Options{Keys: 4}), newPolicy("p", time.Second, day(1_000_000))
	for i := range 200 {
		for range 30 {
			w.check(t, 0, p, store.Key(strconv.Itoa(i)), 1)
		}
		w.idle(0)
		g.Expect(w.replicas[0].keys.count()).To(BeNumerically("<=", 4))
		g.Expect(w.replicas[0].keys.number.Load()).To(BeNumerically("<=", 4))
	}
}

// A replica exchanges a limited number of slices a second.
func TestMostExchanges(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(1, Options{Exchanges: 5}), newPolicy("p", time.Hour, day(1_000_000))
	for i := range 100 {
		for range 30 {
			w.check(t, 0, p, store.Key(strconv.Itoa(i)), 1)
		}
	}
	w.idle(0)
	g.Expect(w.takes.Load()).To(BeNumerically("~", 5, 4))
}

// A stopped cache has returned everything, and takes no slices.
func TestStop(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(1, Options{}), newPolicy("p", time.Second, day(10_000))
	stop := start(t, w.replicas[0])
	spent := w.heat(t, 0, p, "a")
	stop()
	used, held := w.state(t, p, "a")
	g.Expect([]int64{used, held}).To(Equal([]int64{spent, 0}))
	for range 100 {
		_, fromSlice := w.check(t, 0, p, "a", 1)
		g.Expect(fromSlice).To(BeFalse())
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	w, p := newWorld(1, Options{Registerer: registry}), newPolicy("p", time.Second, day(10_000))
	w.heat(t, 0, p, "a")
	NewWithT(t).Expect(testutil.GatherAndCount(registry, "weir_slice_keys", "weir_slice_exchanges_total", "weir_slice_denials_total")).To(Equal(1 + 3 + 1))
}

// Keys without slices forget that they were hot.
func TestSweepForgetsKeys(t *testing.T) {
	g, w, p := NewWithT(t), newWorld(1, Options{}), newPolicy("p", time.Second, day(10_000))
	w.heat(t, 0, p, "a")
	for range 3 {
		w.pass(2 * time.Second)
		w.replicas[0].sweep()
		w.idle(0)
	}
	g.Expect(w.replicas[0].keys.number.Load()).To(BeZero())
	w.heat(t, 0, p, "a")
}

// Two policies may share a key.
func TestSlicesOfOneKeyInTwoPolicies(t *testing.T) {
	g, w := NewWithT(t), newWorld(1, Options{})
	one, two := newPolicy("one", time.Second, day(10_000)), newPolicy("two", time.Second, day(500))
	call := func() *store.Call {
		return &store.Call{Entries: []store.Entry{{Policy: one, Key: "a", Cost: 1}, {Policy: two, Key: "a", Cost: 1}}}
	}
	admitted, fromSlices := 0, 0
	for range 1000 {
		reply, err := w.replicas[0].Evaluate(t.Context(), call())
		g.Expect(err).NotTo(HaveOccurred())
		if reply.FromSlice {
			fromSlices++
		}
		if reply.Entries[1].Verdict == store.Admitted {
			admitted++
		}
		w.idle(0)
		w.pass(time.Millisecond)
	}
	w.replicas[0].DropAll()
	w.idle(0)
	g.Expect(fromSlices).To(BeNumerically(">", 100))
	g.Expect(admitted).To(BeNumerically("<=", 500))
	for _, p := range []*store.Policy{one, two} {
		used, held := w.state(t, p, "a")
		g.Expect([]int64{used, held}).To(Equal([]int64{int64(admitted), 0}))
	}
}

// While a replica has a slice, an exception raises the burst of the key. What is admitted under the exception counts also after
// the slice has been returned by the plan without it.
func TestSlicesForgetNothingThatAnExceptionAdmits(t *testing.T) {
	for _, algorithm := range []store.Algorithm{store.TokenBucket, store.GCRA, store.FixedWindow} {
		t.Run(string(algorithm), func(t *testing.T) {
			stores(t, func(t *testing.T, open func() store.Store) {
				t.Helper()
				g := NewWithT(t)
				const most = 10_000
				raised := store.Limit{Name: "l", Algorithm: algorithm, Quota: 1000, Threshold: 1000, Window: 24 * time.Hour}
				base := newPolicy("raised", 30*time.Second, raised)
				raised.Quota = most // the rate stays, so the state is shared
				excepted := base.NewExcepted([]store.Limit{raised})
				replicas := []*Cache{New(Options{Store: open()}), New(Options{Store: open()})}
				for _, c := range replicas {
					start(t, c)
				}
				admitted := int64(0)
				spend := func(c *Cache, p *store.Policy, cost int64) (fromSlice bool) {
					reply, err := c.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: p, Key: "a", Cost: cost}}})
					g.Expect(err).NotTo(HaveOccurred())
					if reply.Entries[0].Verdict == store.Admitted {
						admitted += cost
					}
					return reply.FromSlice
				}
				g.Eventually(func() bool { return spend(replicas[1], base, 1) }).Should(BeTrue())
				for range 90 {
					spend(replicas[0], excepted, 100)
				}
				// Slices that a replica has not returned yet may deny some.
				g.Eventually(func() int64 {
					spend(replicas[0], excepted, 100)
					return admitted
				}).Should(BeNumerically(">", 8000), "under the exception")
				spend(replicas[1], excepted, 1) // returns the slice first
				for range 200 {
					spend(replicas[1], excepted, 100)
				}
				refill := int64(60) // of a minute, for a busy machine
				g.Expect(admitted).To(BeNumerically("<=", most+refill))
			})
		})
	}
}
