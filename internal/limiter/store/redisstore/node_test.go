// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// fakeNode is a node whose outcomes the test chooses.
type fakeNode struct {
	*node
	sent   atomic.Int64 // calls, each time they were sent
	probes atomic.Int64
	err    atomic.Pointer[store.Error] // the outcome of every call, or nil
}

const fakeTimeout = 20 * time.Millisecond

func newFakeNode() *fakeNode {
	f := &fakeNode{node: newNode(fakeTimeout, DefaultMaxSends, newMetrics().ofNode("fake"))}
	f.send = func(_ context.Context, batch []*pending) []outcome {
		f.sent.Add(int64(len(batch)))
		if err := f.err.Load(); err != nil {
			return failAll(len(batch), err)
		}
		outcomes := make([]outcome, len(batch))
		for i := range outcomes {
			outcomes[i].values = []any{int64(store.Admitted), int64(1), int64(1), int64(0), int64(1), int64(0)}
		}
		return outcomes
	}
	f.resend = f.send
	f.probe = func(context.Context, store.Key) error {
		f.probes.Add(1)
		if err := f.err.Load(); err != nil {
			return err
		}
		return nil
	}
	return f
}

// holdBatches makes batches wait until the returned channel is closed.
func (f *fakeNode) holdBatches() chan struct{} {
	admit := make(chan struct{})
	send := f.send
	f.send = func(ctx context.Context, batch []*pending) []outcome {
		<-admit
		return send(ctx, batch)
	}
	return admit
}

// ask decides one call and returns the cause of its failure; "" if it was decided.
func (f *fakeNode) ask(ctx context.Context, deadline time.Duration) store.Cause {
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 30)})
	_, err := f.decideCall(ctx, newPending(ctx, storetest.SpendOne(policy, "a"), mode{}, time.Now().Add(deadline)))
	return causeIn(err)
}

func causeIn(err error) store.Cause {
	if failure, ok := errors.AsType[*store.Error](err); ok {
		return failure.Cause
	}
	return ""
}

func TestBreakerStopsAskingAndAProbeStartsAgain(t *testing.T) {
	g := NewWithT(t)
	f := newFakeNode()
	f.err.Store(&store.Error{Cause: store.CauseConnection, Err: errors.New("refused")})
	for range maxFailures {
		g.Expect(f.ask(t.Context(), time.Minute)).To(Equal(store.CauseConnection))
	}
	for range 100 {
		g.Expect(f.ask(t.Context(), time.Minute)).To(Equal(store.CauseBreaker))
	}
	g.Expect(f.sent.Load()).To(Equal(int64(maxFailures)), "the node is not asked any more")
	g.Eventually(f.probes.Load, "30s").Should(BeNumerically(">=", 2), "probes continue")
	g.Expect(f.ask(t.Context(), time.Minute)).To(Equal(store.CauseBreaker), "after a failed probe")
	f.err.Store(nil)
	g.Eventually(func() store.Cause { return f.ask(t.Context(), time.Minute) }, "30s").Should(BeEmpty())
	stopped := f.probes.Load()
	f.err.Store(&store.Error{Cause: store.CauseConnection, Err: errors.New("refused")})
	g.Expect(f.ask(t.Context(), time.Minute)).To(Equal(store.CauseConnection), "one failure does not open it again")
	g.Consistently(f.probes.Load, 3*probePause).Should(Equal(stopped), "nothing probes while it is closed")
}

func TestAnswersOfANodeDoNotOpenTheBreaker(t *testing.T) {
	for _, cause := range []store.Cause{store.CauseScript, store.CauseCanceled} {
		t.Run(string(cause), func(t *testing.T) {
			g := NewWithT(t)
			f := newFakeNode()
			f.err.Store(&store.Error{Cause: cause, Err: errors.New("of this call")})
			for range 4 * maxFailures {
				g.Expect(f.ask(t.Context(), time.Minute)).To(Equal(cause))
			}
		})
	}
}

// A caller that allows only a little time does not make the node look broken.
func TestShortDeadlinesDoNotOpenTheBreaker(t *testing.T) {
	g := NewWithT(t)
	f := newFakeNode()
	send := f.send
	f.send = func(ctx context.Context, batch []*pending) []outcome {
		deadline, _ := ctx.Deadline()
		g.Expect(time.Until(deadline)).To(BeNumerically(">", fakeTimeout/2), "the batch has the whole timeout")
		for _, p := range batch {
			g.Eventually(p.isFinished.Load, "30s").Should(BeTrue(), "its caller is gone")
		}
		return send(ctx, batch)
	}
	for range 2 * maxFailures {
		g.Expect(f.ask(t.Context(), -time.Second)).To(Equal(store.CauseTimeout))
	}
}

// Queues that are sent one after the other need few goroutines.
func TestSendersAreReused(t *testing.T) {
	g := NewWithT(t)
	f := newFakeNode()
	f.timeout = time.Hour // none of the callers sends its batch itself
	before := runtime.NumGoroutine()
	for range 2000 {
		g.Expect(f.ask(t.Context(), time.Minute)).To(BeEmpty())
	}
	g.Expect(f.sent.Load()).To(Equal(int64(2000)))
	g.Expect(runtime.NumGoroutine() - before).To(BeNumerically("<", 100))
}

// While a batch is in flight, each caller waits until its own deadline, in the batch or in the
// queue.
func TestCallersKeepTheirDeadlines(t *testing.T) {
	g := NewWithT(t)
	f := newFakeNode()
	f.timeout = time.Hour
	admit := f.holdBatches()
	patient := make(chan store.Cause, 1)
	go func() { patient <- f.ask(t.Context(), time.Hour) }()
	var hurried sync.WaitGroup
	for i := range 100 {
		hurried.Go(func() {
			g.Expect(f.ask(t.Context(), time.Duration(i)*time.Millisecond)).To(Equal(store.CauseTimeout))
		})
	}
	hurried.Wait()
	g.Expect(patient).NotTo(Receive())
	close(admit)
	g.Eventually(patient).Should(Receive(BeEmpty()))
	g.Eventually(f.sent.Load).Should(BeNumerically("<=", 1+maxBatchCalls), "expired calls are not sent")
}

// A caller in a hurry does not mean that Redis is slow.
func TestCallersDeadlinesAreNoTimeouts(t *testing.T) {
	g := NewWithT(t)
	f := newFakeNode()
	f.timeout = time.Hour
	admit := f.holdBatches()
	defer close(admit)
	hurried, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	g.Expect(f.ask(hurried, 10*time.Millisecond)).To(Equal(store.CauseDeadline), "its context ends")
	g.Expect(f.ask(hurried, 0)).To(Equal(store.CauseDeadline), "its deadline has passed before")
	patient, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	g.Expect(f.ask(patient, 5*time.Millisecond)).To(Equal(store.CauseTimeout))
}

func TestAFullQueueRefuses(t *testing.T) {
	g := NewWithT(t)
	f := newFakeNode()
	admit := f.holdBatches()
	causes := make(chan store.Cause, 2*maxQueued)
	for range 2 * maxQueued {
		go func() { causes <- f.ask(t.Context(), time.Hour) }()
	}
	var first store.Cause
	g.Eventually(causes, "30s").Should(Receive(&first))
	g.Expect(first).To(Equal(store.CauseQueue))
	close(admit)
	counts := map[store.Cause]int{first: 1}
	for range 2*maxQueued - 1 {
		var cause store.Cause
		g.Eventually(causes, "30s").Should(Receive(&cause))
		counts[cause]++
	}
	g.Expect(counts[""]).To(BeNumerically(">=", maxQueued))
	g.Expect(counts[""] + counts[store.CauseQueue]).To(Equal(2 * maxQueued))
}

// A call that the node rejects without running it is sent again a few times, while its caller
// waits.
func TestRejectedCallsAreSentAgain(t *testing.T) {
	rejection := &store.Error{Cause: store.CauseReadOnly, Err: errors.New("READONLY")}
	t.Run("until it is decided", func(t *testing.T) {
		g := NewWithT(t)
		f := newFakeNode()
		resend := f.resend
		f.err.Store(rejection)
		f.resend = func(ctx context.Context, batch []*pending) []outcome {
			f.err.Store(nil)
			return resend(ctx, batch)
		}
		g.Expect(f.ask(t.Context(), time.Minute)).To(BeEmpty())
		g.Expect(f.sent.Load()).To(Equal(int64(2)))
	})
	t.Run("a few times", func(t *testing.T) {
		g := NewWithT(t)
		f := newFakeNode()
		f.err.Store(rejection)
		g.Expect(f.ask(t.Context(), time.Minute)).To(Equal(store.CauseReadOnly))
		g.Expect(f.sent.Load()).To(Equal(int64(DefaultMaxSends)))
	})
	t.Run("not after its deadline", func(t *testing.T) {
		g := NewWithT(t)
		f := newFakeNode()
		f.err.Store(rejection)
		g.Expect(f.ask(t.Context(), resendPause)).To(BeElementOf(store.CauseReadOnly, store.CauseTimeout))
		g.Expect(f.sent.Load()).To(Equal(int64(1)))
	})
}

// A call is answered within the timeout, and some time before its caller gives up.
func TestDeadlinesOfCalls(t *testing.T) {
	g := NewWithT(t)
	backend := &Store{timeout: time.Minute}
	g.Expect(backend.deadline(t.Context())).To(BeTemporally("~", time.Now().Add(time.Minute), 30*time.Second))
	end := time.Now().Add(time.Second)
	ctx, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	g.Expect(backend.deadline(ctx)).To(BeTemporally("==", end.Add(-callerMargin)))
}
