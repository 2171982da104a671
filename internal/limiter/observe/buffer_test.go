// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/testenv"
)

// Every event is taken once, in the order of its writer, or reported as dropped.
func TestBufferWithManyWriters(t *testing.T) {
	g := NewWithT(t)
	b := newBuffer(64, make(chan struct{}, 1))
	const writers, each = 8, 5000
	var dropped atomic.Int64
	var group, reader sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				key := store.Key(strconv.Itoa(i))
				if i%7 == 0 {
					key = store.Key(strings.Repeat("x", 300)) + key
				}
				if !b.add(strconv.Itoa(w), key, uint64(i+1), time.Time{}) {
					dropped.Add(1)
					runtime.Gosched() // let the reader run
				}
			}
		})
	}
	last, taken, problems := map[string]uint64{}, int64(0), 0
	take := func(e *event) {
		number, err := strconv.ParseUint(strings.TrimLeft(string(e.text()), "x"), 10, 64)
		if err != nil || number+1 != e.hash || e.hash <= last[e.policy] {
			problems++
		}
		last[e.policy] = e.hash
		taken++
	}
	done := make(chan struct{})
	reader.Go(func() {
		for {
			for b.take(take) {
			}
			select {
			case <-done:
				for b.take(take) {
				}
				return
			default:
			}
		}
	})
	group.Wait()
	close(done)
	reader.Wait()
	g.Expect(problems).To(BeZero())
	g.Expect(taken + dropped.Load()).To(Equal(int64(writers * each)))
	g.Expect(taken).To(BeNumerically(">", 64))
	g.Expect(b.long.Load()).To(BeZero(), "the room of long keys was given back")
}

func TestBufferRejectsWhenFull(t *testing.T) {
	g := NewWithT(t)
	wake := make(chan struct{}, 1)
	b := newBuffer(8, wake)
	for range 8 {
		g.Expect(b.add("p", "k", 1, time.Time{})).To(BeTrue())
	}
	g.Expect(b.add("p", "k", 1, time.Time{})).To(BeFalse())
	g.Expect(wake).To(Receive())
	g.Expect(b.take(func(*event) {})).To(BeTrue())
	g.Expect(b.add("p", "k", 1, time.Time{})).To(BeTrue())
	g.Expect(b.add("p", store.Key(strings.Repeat("x", maxLongBytes+1)), 1, time.Time{})).To(BeFalse(), "too long for the room of long keys")
	g.Expect(b.long.Load()).To(BeZero())
}

// A denial allocates nothing, whether its key has a counter or not.
func TestDenyAllocatesNothing(t *testing.T) {
	g := NewWithT(t)
	c := newCollector(t, Options{})
	g.Expect(testenv.FewestAllocations(func() {
		c.Deny("shop/login", "alice")
		c.Block("shop/login", "alice", start)
	})).To(BeZero())
	c.drain()
	g.Expect(testenv.FewestAllocations(func() { c.Deny("shop/login", "alice") })).To(BeZero())
}

// Denials of one key by many goroutines are all counted, or reported as dropped, while others read.
func TestHotKeysAreCountedExactly(t *testing.T) {
	g := NewWithT(t)
	c := newCollector(t, Options{})
	const writers, each = 4, 20_000
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for i := range each {
				c.Deny("shop/login", "alice")
				if i%100 == 0 {
					c.drain()
				}
			}
		})
	}
	group.Wait()
	c.drain()
	c.drain()
	g.Expect(c.summaries.policies["shop/login"][0].total + c.drops.sum()).To(Equal(int64(writers * each)))
}

// A key that is denied all the time does not fill the buffer, and loses its counter some time after
// its last denial.
func TestHotKeysBypassTheBuffer(t *testing.T) {
	g := NewWithT(t)
	c := newCollector(t, Options{})
	c.Deny("shop/login", "alice")
	c.drain()
	for range 10 * bufferedDenials {
		c.Deny("shop/login", "alice")
	}
	g.Expect(c.drops.sum()).To(BeZero())
	g.Expect(c.denials.take(func(*event) {})).To(BeFalse(), "the buffer is empty")
	for range idleFlushes + 2 {
		c.drain()
	}
	g.Expect(c.summaries.policies["shop/login"][0].total).To(Equal(int64(10*bufferedDenials + 1)))
	c.Deny("shop/login", "alice")
	g.Expect(c.denials.take(func(*event) {})).To(BeTrue())
}
