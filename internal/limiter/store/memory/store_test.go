// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/storetest"
)

// clock is a clock that the test moves.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.now.Store(1_900_000_000_000_000)
	return c
}

func (c *clock) Now() time.Time          { return time.UnixMicro(c.now.Load()) }
func (c *clock) Advance(d time.Duration) { c.now.Add(d.Microseconds()) }

var algorithms = []store.Algorithm{
	store.FixedWindow, store.SlidingLog, store.SlidingWindow, store.TokenBucket, store.GCRA, store.Suppressed,
}

func policyOf(id string, limits ...store.Limit) *store.Policy {
	return store.NewPolicy("test/"+id, false, false, limits)
}

// check evaluates a check of cost 1 of one key and returns the reply.
func check(t *testing.T, s *memory.Store, p *store.Policy, key store.Key) store.EntryReply {
	t.Helper()
	reply, err := s.Evaluate(t.Context(), storetest.SpendOne(p, key))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return reply.Entries[0]
}

// A panic during a decision, from which the servers recover, does not keep the keys of the call locked.
func TestPanicsKeepNoLock(t *testing.T) {
	g := NewWithT(t)
	c, p, panics := newClock(), policyOf("panics", storetest.SlowLimit(store.FixedWindow, 9)), true
	s := memory.NewStore(memory.Options{Keys: 10, Now: func() time.Time {
		if panics {
			panics = false
			panic("a defect")
		}
		return c.Now()
	}})
	g.Expect(func() { check(t, s, p, "a") }).To(PanicWith("a defect"))
	decided := make(chan struct{})
	go func() {
		defer close(decided)
		check(t, s, p, "a")
	}()
	g.Eventually(decided, "30s").Should(BeClosed())
}

// concurrently runs do n times from 64 goroutines.
func concurrently(n int64, do func(*rand.Rand)) {
	var wait sync.WaitGroup
	var calls atomic.Int64
	for i := range uint64(64) {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(i, 3))
			for calls.Add(1) <= n {
				do(r)
			}
		})
	}
	wait.Wait()
}

// Checks, resets, blocks, key rotation and expiry at the same time leave no key behind.
func TestEverythingAtOnce(t *testing.T) {
	g := NewWithT(t)
	c := newClock()
	s := memory.NewStore(memory.Options{Keys: 500, Now: c.Now})
	var policies []*store.Policy
	for i, a := range algorithms {
		l := storetest.SlowLimit(a, 3)
		l.Window, l.Block, l.Threshold = 50*time.Millisecond, 70*time.Millisecond, 3
		if l.Bucket > 0 {
			l.Bucket = 5 * time.Millisecond
		}
		policies = append(policies, policyOf(fmt.Sprint("p", i), l))
	}
	concurrently(50_000, func(r *rand.Rand) {
		p, q := policies[r.IntN(len(policies))], policies[r.IntN(len(policies))]
		key := store.Key(strconv.Itoa(r.IntN(300)))
		switch r.IntN(20) {
		case 0:
			_, _ = s.Reset(t.Context(), p, key)
		case 1:
			_ = s.Block(t.Context(), p, key, 20*time.Millisecond)
		case 2:
			_, _ = s.Unblock(t.Context(), p, key)
		case 3:
			c.Advance(time.Millisecond)
		case 4:
			s.DropExpired()
		default:
			call := &store.Call{Draw: r.Uint32(), Entries: []store.Entry{{Policy: p, Key: key, Cost: 1}}}
			if q != p {
				call.Entries = append(call.Entries, store.Entry{Policy: q, Key: key + "x", Cost: 1, Peek: r.IntN(9) == 0})
			}
			_, _ = s.Evaluate(t.Context(), call)
		}
	})
	c.Advance(time.Hour)
	s.DropExpired()
	g.Expect(s.Keys()).To(BeZero())
	for _, p := range policies {
		g.Expect(check(t, s, p, "1").Verdict).To(Equal(store.Admitted))
	}
}

// A check that names more keys than the store has room for, and one that is denied, do not
// take room.
func TestRoomIsGivenBack(t *testing.T) {
	g := NewWithT(t)
	s := memory.NewStore(memory.Options{Keys: 3})
	p := policyOf("p", storetest.SlowLimit(store.FixedWindow, 1))
	closed := policyOf("closed", storetest.SlowLimit(store.FixedWindow, 1))
	check(t, s, closed, "a")
	for i := range 10 {
		reply, _ := s.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{
			{Policy: p, Key: store.Key(strconv.Itoa(i)), Cost: 1}, {Policy: closed, Key: "a", Cost: 1},
		}})
		g.Expect(reply.Entries[0].Overflow).To(BeFalse())
		g.Expect(s.Keys()).To(Equal(1))
	}
}
