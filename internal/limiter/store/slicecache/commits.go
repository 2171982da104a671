// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"container/heap"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// mostCommits is the number of commits that are on their way to the store at a time. An edit ends up to 10,000 slices at once,
// whose commits would take all places of checks in the queues of the store.
const mostCommits = 64

// commits are the slices that wait for a commit in the background. The one whose hold ends first goes first.
type commits struct {
	mu      sync.Mutex
	waiting commitHeap
	sending int // goroutines
}

// commit is a sealed slice that is to be committed.
type commit struct {
	*slice

	spent int64
	wait  time.Duration // before the next attempt
	done  chan struct{}
}

// commit commits a sealed slice in the background, until its hold has ended. Then the channel is closed.
func (c *Cache) commit(s *slice, spent int64) (done <-chan struct{}) {
	c.inFlight.begin()
	next := &commit{slice: s, spent: spent, wait: minRetryWait, done: make(chan struct{})}
	c.commits.add(next, c.send)
	return next.done
}

// send sends a commit, and again later if the store does not answer.
func (c *Cache) send(next *commit) {
	missing := &store.EntryReply{Hold: store.HoldMissing}
	if c.now() >= next.gone { // the store has spent it as a whole
		c.finish(next, missing)
		return
	}
	reply, err := c.evaluate(next.callToCommit(next.spent))
	switch {
	case err == nil:
		c.finish(next, &reply.Entries[0])
	case c.now() >= next.gone:
		c.finish(next, missing)
	default:
		time.AfterFunc(next.wait, func() {
			next.wait = min(2*next.wait, maxRetryWait)
			c.commits.add(next, c.send)
		})
	}
}

func (c *Cache) finish(done *commit, r *store.EntryReply) {
	c.metrics.committed(done.slice, done.spent, r)
	close(done.done)
	c.inFlight.end()
}

// add adds a commit, and sends it in another goroutine, if not in one that already sends.
func (q *commits) add(next *commit, send func(*commit)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	heap.Push(&q.waiting, next)
	if q.sending == mostCommits {
		return
	}
	q.sending++
	go func() {
		for next := q.next(); next != nil; next = q.next() {
			send(next)
		}
	}()
}

// next returns the next commit to send; nil if none waits, which ends the goroutine.
func (q *commits) next() *commit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.sending--
		return nil
	}
	return heap.Pop(&q.waiting).(*commit) //nolint:forcetypeassert // the heap holds only these
}

// commitHeap is a heap.Interface by the ends of the holds.
type commitHeap []*commit

func (h *commitHeap) Len() int           { return len(*h) }
func (h *commitHeap) Less(i, j int) bool { return (*h)[i].gone < (*h)[j].gone }
func (h *commitHeap) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *commitHeap) Push(x any)         { *h = append(*h, x.(*commit)) } //nolint:forcetypeassert // only next is pushed

func (h *commitHeap) Pop() any {
	last := len(*h) - 1
	popped := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return popped
}
