// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/storetest"
)

// slowStore counts the calls that it has not answered yet.
type slowStore struct {
	mu      sync.Mutex
	open    int
	most    int
	got     []string // the IDs of commits, in order
	release chan struct{}
}

func (s *slowStore) evaluate(call *store.Call) (*store.Reply, error) {
	s.mu.Lock()
	s.open++
	s.most = max(s.most, s.open)
	s.got = append(s.got, call.Entries[0].ID)
	s.mu.Unlock()
	<-s.release
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	return call.NewReply(), nil
}

func (s *slowStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// An edit ends all slices of a policy at once. Their commits take few places in the queues of the store, the urgent ones first.
func TestManyCommitsAreFewAtATime(t *testing.T) {
	g := NewWithT(t)
	backend := &slowStore{release: make(chan struct{})}
	c := New(Options{Store: memory.NewStore(memory.Options{Keys: 1})})
	c.evaluate = backend.evaluate
	policy := newPolicy("sliced", time.Minute, storetest.SlowLimit(store.FixedWindow, 1000))
	const n = 1000
	for _, i := range rand.Perm(n) {
		c.commit(&slice{policy: policy, id: strconv.Itoa(i), units: 1, gone: c.now() + time.Hour + time.Duration(i)*time.Second}, 0)
	}
	g.Eventually(backend.count, "30s").Should(Equal(mostCommits))
	close(backend.release)
	g.Eventually(c.inFlight.idle(), "30s").Should(BeClosed())
	g.Expect(backend.got).To(HaveLen(n))
	g.Expect(backend.most).To(Equal(mostCommits))
	// Of the ones that had to wait, the goroutines that send have taken the most urgent ones first.
	var waited []int
	for _, id := range backend.got[mostCommits:] {
		i, _ := strconv.Atoi(id)
		waited = append(waited, i)
	}
	early := slices.Clone(waited[:n/4])
	slices.Sort(early)
	g.Expect(early[len(early)-1]).To(BeNumerically("<", n/2), "no late one among the first quarter")
}

// The store spends a slice as a whole when its hold ends: then no commit is sent.
func TestLateCommitsAreNotSent(t *testing.T) {
	g := NewWithT(t)
	backend := &slowStore{release: make(chan struct{})}
	close(backend.release)
	c := New(Options{Store: memory.NewStore(memory.Options{Keys: 1})})
	c.evaluate = backend.evaluate
	policy := newPolicy("sliced", time.Minute, storetest.SlowLimit(store.FixedWindow, 1000))
	g.Eventually(c.commit(&slice{policy: policy, id: "late", units: 5, gone: c.now()}, 2), "30s").Should(BeClosed())
	g.Expect(backend.count()).To(BeZero())
}

// An exchange may end between the look at the slice of a key and the claim to forget it.
func TestAKeyWithASliceIsNotIdle(t *testing.T) {
	g := NewWithT(t)
	k := &hotKey{}
	k.current.Store(&slice{})
	g.Expect(k.isIdle()).To(BeFalse())
	g.Expect(k.isTaking.Load()).To(BeFalse(), "the next slice can be taken")
	k.current.Store(nil)
	g.Expect(k.isIdle()).To(BeTrue())
	g.Expect(k.isTaking.Load()).To(BeTrue(), "no slice is taken of a key that is forgotten")
}

// waitingStore answers a commit when the context of the call has ended.
type waitingStore struct{ store.Store }

func (s waitingStore) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	if call.Entries[0].Action == store.Commit {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Evaluate(ctx, call)
}

// A check that returns a slice first waits for that no longer than its caller waits.
func TestReturningASliceKeepsTheDeadline(t *testing.T) {
	g := NewWithT(t)
	backend := waitingStore{memory.NewStore(memory.Options{Keys: 1000})}
	c := New(Options{Store: backend})
	policy := newPolicy("sliced", time.Minute, storetest.SlowLimit(store.FixedWindow, 100_000))
	g.Eventually(func() bool {
		reply, err := c.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
		return err == nil && reply.FromSlice
	}, "30s").Should(BeTrue())
	<-c.inFlight.idle()
	c.evaluate = func(call *store.Call) (*store.Reply, error) { return call.NewReply(), nil } // later, in the background
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = c.Evaluate(ctx, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 90_000}}})
	}()
	cancel()
	g.Eventually(answered, "30s").Should(BeClosed())
	g.Eventually(c.inFlight.idle(), "30s").Should(BeClosed())
}
