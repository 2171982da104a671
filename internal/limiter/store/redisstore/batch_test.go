// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// A batch of random calls gives the replies that the model gives to the same calls one
// after the other, at one instant.
func TestBatchesAgreeWithModel(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			const runs, steps = 10, 60
			model := storetest.NewModel()
			server, client := newSubject(t, on)
			backend := newStore(client)
			backend.now = server.Clock.Now
			for seed := range seeds.OnServer(2 * runs) {
				choice := allAlgorithms
				if seed%2 == 1 {
					choice = fastAlgorithms
				}
				w := storetest.NewWorkload(rand.New(rand.NewPCG(seed, 11)), choice, storetest.Features{Holds: true})
				model.Clear(t)
				server.Clear(t)
				now := server.Clock.Now()
				for step := range steps {
					now = w.NextTime(now)
					model.SetTime(t, now)
					server.SetTime(t, now)
					compareBatch(t, fmt.Sprintf("seed %d step %d", seed, step), w, model, backend)
				}
			}
		})
	}
}

func compareBatch(t *testing.T, name string, w *storetest.Workload, model *storetest.Subject, backend *Store) {
	t.Helper()
	g := NewWithT(t)
	var batch []*pending
	want := map[*pending]*store.Reply{}
	for len(batch) == 0 || w.Rand.IntN(8) > 0 {
		call := w.NextCall()
		if len(batch) > 0 && w.Rand.IntN(3) == 0 { // like an earlier one
			earlier := batch[w.Rand.IntN(len(batch))].call
			entries := slices.Clone(earlier.Entries)
			if w.Rand.IntN(3) == 0 && call.IsDeniable() == earlier.IsDeniable() {
				entries[0].Cost = max(1, call.Entries[0].Cost)
			}
			call = &store.Call{Entries: entries, Denied: earlier.Denied, Draw: call.Draw}
		}
		p := pendingOf(t, call)
		batch = append(batch, p)
		want[p] = model.MustEvaluate(t, call)
	}
	if w.Rand.IntN(2) == 0 {
		gather(batch)
	}
	for i, o := range backend.send(t.Context(), batch) {
		g.Expect(storetest.DifferenceOf(decoded(t, batch[i], o).Reply, want[batch[i]])).To(BeEmpty(), func() string {
			return fmt.Sprintf("%s, call %d of\n%s", name, i, describeBatch(batch))
		})
	}
}

// pendingOf returns the call as pending, without a deadline.
func pendingOf(tb testing.TB, call *store.Call) *pending {
	tb.Helper()
	return newPending(tb.Context(), call, mode{}, time.Time{})
}

func describeBatch(batch []*pending) string {
	var b strings.Builder
	for _, p := range batch {
		b.WriteString(storetest.Describe(p.call) + "\n")
	}
	return b.String()
}

// decoded returns the reply of a call that was decided.
func decoded(t *testing.T, p *pending, o outcome) result {
	t.Helper()
	if o.err != nil {
		t.Fatal(o.err)
	}
	r, err := decodeReply(p.call, p.mode.receipts, o.values)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// blockingStore is a store whose batches wait until the test lets them go.
type blockingStore struct {
	*Store
	node  *node
	sent  chan []*pending
	admit chan struct{}
}

func newBlockingStore(backend *Store) *blockingStore {
	s := &blockingStore{Store: backend, sent: make(chan []*pending, 10), admit: make(chan struct{})}
	s.node = backend.route(nil, "")
	s.node.send = func(ctx context.Context, batch []*pending) []outcome {
		s.sent <- batch
		<-s.admit
		return backend.send(ctx, batch)
	}
	return s
}

// queued is the number of calls that wait for the batch in flight.
func (s *blockingStore) queued() int {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	waiting := 0
	for _, p := range s.node.queue {
		if !p.isFinished.Load() {
			waiting++
		}
	}
	return waiting
}

// answer is what Evaluate returned.
type answer struct {
	reply *store.Reply
	err   error
}

// start evaluates the call in the background.
func (s *blockingStore) start(ctx context.Context, call *store.Call) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		reply, err := s.Evaluate(ctx, call)
		done <- answer{reply, err}
	}()
	return done
}

// startInOrder starts the calls so that they queue in their order, behind one in flight.
func (s *blockingStore) startInOrder(g *WithT, ctx context.Context, calls []*store.Call) []<-chan answer {
	started := make([]<-chan answer, len(calls))
	for i, call := range calls {
		started[i] = s.start(ctx, call)
		g.Eventually(s.queued, "30s", "100us").Should(Equal(i + 1))
	}
	return started
}

func newBlockingSubject(t *testing.T) (*blockingStore, *storetest.Subject) {
	t.Helper()
	b, client := newSubject(t, servers[0])
	return newBlockingStore(newStore(client)), b
}

// newStoreWithCallInFlight returns a store that has sent one call with the policy, of 30 units
// for hours, and its result.
func newStoreWithCallInFlight(t *testing.T) (*blockingStore, *store.Policy, <-chan answer) {
	t.Helper()
	s, _ := newBlockingSubject(t)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 30)})
	first := s.start(t.Context(), storetest.SpendOne(policy, "a"))
	NewWithT(t).Eventually(s.sent).Should(Receive(HaveLen(1)))
	return s, policy, first
}

func TestCallsQueuedDuringABatchShareTheNextInOrder(t *testing.T) {
	g := NewWithT(t)
	s, policy, first := newStoreWithCallInFlight(t)
	queued := make([]*store.Call, 40)
	for i := range queued {
		queued[i] = storetest.SpendOne(policy, "a")
	}
	started := s.startInOrder(g, t.Context(), queued)
	close(s.admit)
	g.Eventually(s.sent).Should(Receive(HaveLen(maxBatchCalls)))
	g.Eventually(s.sent).Should(Receive(HaveLen(40 - maxBatchCalls)))
	g.Expect((<-first).reply.Entries[0].Limits[0].Used).To(Equal(int64(1)))
	for i, done := range started {
		r := <-done
		g.Expect(r.err).NotTo(HaveOccurred())
		want := store.Admitted
		if i >= 29 {
			want = store.Denied
		}
		g.Expect(r.reply.Entries[0].Verdict).To(Equal(want), "call %d", i)
		g.Expect(r.reply.Entries[0].Limits[0].Used).To(Equal(min(int64(i)+2, 30)), "call %d", i)
	}
}

func TestBatchesBoundTheirKeys(t *testing.T) {
	g := NewWithT(t)
	limits := make([]store.Limit, 16)
	for i := range limits {
		limits[i] = storetest.SlowLimit(store.FixedWindow, 30)
		limits[i].Name = fmt.Sprintf("l%d", i)
	}
	policy := store.NewPolicy("test/p", false, false, limits)
	var queue []*pending
	for range 40 {
		queue = append(queue, pendingOf(t, storetest.SpendOne(policy, "a")))
	}
	batch, rest := nextBatch(queue)
	g.Expect(batch).To(HaveLen(maxBatchKeys / 17))
	g.Expect(rest).To(HaveLen(40 - maxBatchKeys/17))
	large := &store.Call{Entries: slices.Repeat(storetest.SpendOne(policy, "a").Entries, 20)}
	batch, rest = nextBatch([]*pending{pendingOf(t, large), pendingOf(t, large)})
	g.Expect(batch).To(HaveLen(1), "a large call goes alone")
	g.Expect(rest).To(HaveLen(1))
}

func TestAnErrorOfOneCallDoesNotFailTheBatch(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			g := NewWithT(t)
			_, client := newSubject(t, on)
			backend := newStore(client)
			second := storetest.SlowLimit(store.SlidingLog, 30)
			second.Name = "second"
			policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 30), second})
			broken := backend.key("broken", preparedOf(policy).keys[2])
			g.Expect(client.RPush(t.Context(), broken, "not", "a", "log").Err()).To(Succeed())
			var batch []*pending
			for _, key := range []store.Key{"a", "broken", "a", "b", "broken"} {
				batch = append(batch, pendingOf(t, storetest.SpendOne(policy, key)))
			}
			outcomes := backend.send(t.Context(), batch)
			for i, used := range map[int]int64{0: 1, 2: 2, 3: 1} {
				reply := decoded(t, batch[i], outcomes[i])
				g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(used))
			}
			for _, i := range []int{1, 4} {
				g.Expect(outcomes[i].err.Cause).To(Equal(store.CauseScript))
				g.Expect(outcomes[i].err).To(MatchError(ContainSubstring("the script failed")))
			}
		})
	}
}

// Equal calls read and write their key once, so an error of the key fails all of them.
func TestAnErrorOfEqualCallsDoesNotFailTheBatch(t *testing.T) {
	g := NewWithT(t)
	_, client := newSubject(t, servers[0])
	backend := newStore(client)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.SlidingLog, 30)})
	g.Expect(client.RPush(t.Context(), backend.key("broken", preparedOf(policy).keys[1]), "not", "a", "log").Err()).To(Succeed())
	var batch []*pending
	for _, key := range []store.Key{"a", "broken", "b", "broken", "a", "broken"} {
		batch = append(batch, pendingOf(t, storetest.SpendOne(policy, key)))
	}
	gather(batch)
	used := map[store.Key][]int64{}
	for i, o := range backend.send(t.Context(), batch) {
		key := batch[i].call.Entries[0].Key
		if key == "broken" {
			g.Expect(o.err).To(MatchError(ContainSubstring("the script failed")))
			continue
		}
		used[key] = append(used[key], decoded(t, batch[i], o).Entries[0].Limits[0].Used)
	}
	g.Expect(used).To(Equal(map[store.Key][]int64{"a": {1, 2}, "b": {1}}))
}

func TestAQueuedCallerThatCancelsIsNotCharged(t *testing.T) {
	g := NewWithT(t)
	s, policy, first := newStoreWithCallInFlight(t)
	ctx, cancel := context.WithCancel(t.Context())
	canceled := s.start(ctx, storetest.SpendOne(policy, "a"))
	g.Eventually(s.queued).Should(Equal(1))
	cancel()
	var r answer
	g.Eventually(canceled).Should(Receive(&r))
	g.Expect(r.err).To(MatchError(context.Canceled))
	g.Expect(s.queued()).To(BeZero())
	close(s.admit)
	g.Expect((<-first).err).NotTo(HaveOccurred())
	reply, err := s.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(int64(2)))
}

func TestACallerThatCancelsInFlightDoesNotStopItsBatch(t *testing.T) {
	g := NewWithT(t)
	s, policy, first := newStoreWithCallInFlight(t)
	ctx, cancel := context.WithCancel(t.Context())
	started := s.startInOrder(g, ctx, []*store.Call{storetest.SpendOne(policy, "a")})
	other := s.start(t.Context(), storetest.SpendOne(policy, "a"))
	g.Eventually(s.queued).Should(Equal(2))
	s.admit <- struct{}{}
	g.Eventually(s.sent).Should(Receive(HaveLen(2)))
	cancel()
	g.Expect((<-started[0]).err).To(MatchError(context.Canceled))
	close(s.admit)
	g.Expect((<-first).err).NotTo(HaveOccurred())
	r := <-other
	g.Expect(r.err).NotTo(HaveOccurred())
	g.Expect(r.reply.Entries[0].Limits[0].Used).To(Equal(int64(3)), "the canceled call was in flight, and spent")
}

func TestAPanicFailsItsBatchOnly(t *testing.T) {
	g := NewWithT(t)
	s, _ := newBlockingSubject(t)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 30)})
	send := s.node.send
	s.node.send = func(ctx context.Context, batch []*pending) []outcome {
		if len(batch) == 2 {
			panic("hook")
		}
		return send(ctx, batch)
	}
	first := s.start(t.Context(), storetest.SpendOne(policy, "a"))
	g.Eventually(s.sent).Should(Receive())
	started := s.startInOrder(g, t.Context(), []*store.Call{storetest.SpendOne(policy, "a"), storetest.SpendOne(policy, "a")})
	close(s.admit)
	g.Expect((<-first).err).NotTo(HaveOccurred())
	for _, done := range started {
		g.Expect((<-done).err).To(MatchError(ContainSubstring("panic: hook")))
	}
	_, err := s.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
	g.Expect(err).NotTo(HaveOccurred())
}

// Concurrent calls take fewer round trips than calls.
func TestConcurrentCallsShareRoundTrips(t *testing.T) {
	g := NewWithT(t)
	_, client := newSubject(t, servers[0])
	backend := newStore(client)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
	const callers, calls = 64, 100
	_, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.ConfigResetStat(t.Context()).Err()).To(Succeed())
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				_, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
				g.Expect(err).NotTo(HaveOccurred())
			}
		})
	}
	all.Wait()
	info, err := client.Info(t.Context(), "commandstats").Result()
	g.Expect(err).NotTo(HaveOccurred())
	_, stat, found := strings.Cut(info, "cmdstat_evalsha:calls=")
	g.Expect(found).To(BeTrue())
	var trips int
	_, err = fmt.Sscanf(stat, "%d,", &trips)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(trips).To(BeNumerically("<", callers*calls/2))
	reply, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(int64(callers*calls + 2)))
}
