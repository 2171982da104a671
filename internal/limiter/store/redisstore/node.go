// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// maxQueued bounds the calls that wait for a node. More would not be decided in time.
	maxQueued = 4096
	// DefaultMaxSends is the default of Options.MaxSends: a call is sent for 30 ms.
	DefaultMaxSends = 5
	// resendPause is the wait before a rejected call is sent again; it doubles each time.
	resendPause = 2 * time.Millisecond
	// maxLooks bounds how often a batch waits for callers that are ready to run.
	maxLooks = 8
)

// node is one Redis server, with the calls that wait for it and its breaker.
//
// Concurrent calls share round trips, without a timer: a batch is the calls that were queued
// while the previous batch was in flight. At most one batch is in flight, apart from calls that
// are sent again. The calls of a batch are decided in the order of their arrival.
type node struct {
	send sender
	// resend sends the calls that the node rejected.
	resend sender
	// probe writes a key to the node of the given key, to find out whether the node works again.
	probe func(ctx context.Context, key store.Key) error
	// timeout is how long a batch and a probe wait for the node.
	timeout  time.Duration
	maxSends int
	metrics  nodeMetrics
	shares   atomic.Bool // the latest batch had several calls

	mu       sync.Mutex
	queue    []*pending
	sending  bool // the queue is being sent
	inFlight []*sentBatch
	expiry   *time.Timer
	expires  time.Time // when expiry fires; zero if it is stopped
	breaker  breaker
	reason   *store.Error // why the breaker is open, while it is
	latest   time.Time    // the deadline of the last call, at first the start of the node
}

// sender decides the calls of a batch and returns their outcomes in the same order.
type sender func(ctx context.Context, batch []*pending) []outcome

// sentBatch is a batch in flight.
type sentBatch struct {
	calls []*pending
	sends int // how often it has been sent
}

func newNode(timeout time.Duration, maxSends int, metrics nodeMetrics) *node {
	n := &node{timeout: timeout, maxSends: maxSends, metrics: metrics, latest: time.Now()} //nolint:forbidigo // the age of the node
	n.expiry = time.AfterFunc(timeout, n.expire)
	n.expiry.Stop()
	return n
}

// decideCall decides the call in a batch with others. If no batch is in flight and the caller has the whole timeout, the
// caller sends the batch itself and saves two goroutine switches. It then returns with its batch, even if its context
// is canceled earlier.
func (n *node) decideCall(ctx context.Context, p *pending) (result, error) {
	isFirst, err := n.enqueue(p)
	switch {
	case err != nil:
		return result{}, err
	case isFirst && n.hasTimeUntil(p.deadline):
		n.sendFirst() //nolint:contextcheck // the batch has a context of its own
	case isFirst:
		n.startSending() //nolint:contextcheck // as above
	}
	return p.wait(ctx)
}

// enqueue queues the call. If isFirst is true, the queue is not being sent, and the caller must
// send it.
func (n *node) enqueue(p *pending) (isFirst bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latest = p.deadline
	if n.breaker.isOpen {
		return false, n.reason
	}
	if len(n.queue) >= maxQueued {
		n.metrics.rejections.Inc()
		return false, errQueueFull
	}
	n.queue = append(n.queue, p)
	n.expireBy(p.deadline)
	isFirst, n.sending = !n.sending, true
	return isFirst, nil
}

var errQueueFull = &store.Error{Cause: store.CauseQueue, Err: fmt.Errorf("%d calls wait for this node", maxQueued)}

// hasTimeUntil reports whether a batch that is sent now returns by the deadline of a call, to within
// callerMargin.
func (n *node) hasTimeUntil(deadline time.Time) bool {
	return time.Until(deadline) > n.timeout-callerMargin
}

// sendFirst sends one batch. sendQueue sends the calls that were queued meanwhile.
func (n *node) sendFirst() {
	n.letCallersQueue()
	b := n.takeBatch()
	if b == nil {
		return
	}
	n.sendBatch(b, n.send)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sending = len(n.queue) > 0; n.sending {
		n.startSending()
	}
}

// idleSenders passes nodes to goroutines that have sent a queue and wait for another: the stack of a new goroutine would
// have to grow each time. There are hardly more of them than queues were sent at once.
var idleSenders = make(chan *node)

// startSending sends the queue in a goroutine of its own.
func (n *node) startSending() {
	select {
	case idleSenders <- n:
	default:
		go sendQueues(n)
	}
}

// sendQueues sends the queue of the node, and then the queues of other nodes as long as the process runs.
func sendQueues(n *node) {
	for ; ; n = <-idleSenders {
		n.sendQueue()
	}
}

// sendQueue sends batches until the queue is empty.
func (n *node) sendQueue() {
	for {
		n.letCallersQueue()
		b := n.takeBatch()
		if b == nil {
			return
		}
		n.sendBatch(b, n.send)
	}
}

// letCallersQueue lets the callers run that are ready, so that their calls are part of the next
// batch: fewer, larger batches cost less CPU. It returns when the queue does not grow. While calls share batches it
// yields twice before it looks, because what runs first is often the goroutine of a connection, which makes callers
// ready.
func (n *node) letCallersQueue() {
	before := n.queueLength()
	for range maxLooks {
		runtime.Gosched()
		if n.shares.Load() {
			runtime.Gosched()
		}
		after := n.queueLength()
		if after <= before || after >= maxBatchCalls {
			return
		}
		before = after
	}
}

// takeBatch takes a batch from the queue. It returns nil if the queue is empty; then the queue
// is not being sent any more.
func (n *node) takeBatch() *sentBatch {
	n.mu.Lock()
	defer n.mu.Unlock()
	var batch []*pending
	batch, n.queue = nextBatch(n.queue)
	if len(batch) == 0 {
		n.sending = false
		return nil
	}
	n.shares.Store(len(batch) > 1)
	gather(batch)
	b := &sentBatch{calls: batch}
	n.inFlight = append(n.inFlight, b)
	return b
}

// sendBatch sends the batch and returns the outcomes to its callers. A batch always has the whole
// timeout, whatever the deadlines of its callers are, so that the short deadline of a caller cannot open the
// breaker.
func (n *node) sendBatch(b *sentBatch, send sender) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.calls[0].ctx), n.timeout)
	defer cancel()
	b.sends++
	started := time.Now() //nolint:forbidigo // the latency of the round trip
	outcomes := n.sendSafely(ctx, b.calls, send)
	n.metrics.observe(time.Since(started), outcomes)
	n.record(failureOf(outcomes), b.calls[0].call.Entries[0].Key)
	n.complete(b, outcomes)
}

// sendSafely turns a panic into an error of the batch: it runs outside the goroutines of the
// callers.
func (n *node) sendSafely(ctx context.Context, batch []*pending, send sender) (outcomes []outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			outcomes = failAll(len(batch), &store.Error{Cause: store.CauseScript, Err: fmt.Errorf("panic: %v", cause)})
		}
	}()
	return send(ctx, batch)
}

// complete returns the outcomes to the callers. Calls that the node rejected without running them are
// sent again after a pause, beside the following batches.
func (n *node) complete(b *sentBatch, outcomes []outcome) {
	now := time.Now() //nolint:forbidigo // deadlines of callers
	pause := resendPause << (b.sends - 1)
	rejected := &sentBatch{sends: b.sends}
	n.mu.Lock()
	for i, p := range b.calls {
		if isRejected(outcomes[i].err) && b.sends < n.maxSends && now.Add(pause).Before(p.deadline) && !p.isFinished.Load() {
			rejected.calls = append(rejected.calls, p)
			outcomes[i].err = errResend
		}
	}
	n.inFlight = slices.DeleteFunc(n.inFlight, func(other *sentBatch) bool { return other == b })
	if len(rejected.calls) > 0 {
		n.inFlight = append(n.inFlight, rejected)
		time.AfterFunc(pause, func() { n.sendBatch(rejected, n.resend) })
	}
	n.mu.Unlock()
	for i, p := range b.calls {
		if outcomes[i].err != errResend {
			p.finish(outcomes[i])
		}
	}
}

// errResend marks the outcome of a call that is sent again.
var errResend = &store.Error{}

// failureOf returns the failure of a round trip: it failed if it decided no call because of a
// failure of the node.
func failureOf(outcomes []outcome) (failure *store.Error) {
	for _, o := range outcomes {
		if !blamesNode(o.err) {
			return nil
		}
		failure = o.err
	}
	return failure
}

// record reports a round trip to the breaker; failure is nil if it succeeded. If the breaker opens, the
// queued calls fail at once and probes start, to the node of the key.
func (n *node) record(failure *store.Error, key store.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	//nolint:forbidigo // the window of the breaker
	if !n.breaker.record(time.Now(), failure != nil) {
		return
	}
	n.metrics.openings.Inc()
	n.reason = &store.Error{Cause: store.CauseBreaker, Err: fmt.Errorf("no calls are sent after failures, the last one: %w", failure)}
	for _, p := range n.queue {
		p.finish(outcome{err: n.reason})
	}
	n.queue = nil
	go n.probeUntilUp(key)
}

// probeUntilUp closes the breaker after the first probe that succeeds in time, or when the client is closed.
func (n *node) probeUntilUp(key store.Key) {
	for range time.Tick(probePause) {
		ctx, cancel := context.WithTimeout(context.Background(), n.timeout) //nolint:forbidigo // no caller waits for it
		err := n.probe(ctx, key)
		late := ctx.Err() != nil // calls would fail, even if the probe did not
		cancel()
		if err == nil && !late || errors.Is(err, redis.ErrClosed) {
			break
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breaker.close()
}

// expireBy makes the timer fire at the deadline or before. Callers that all have the same
// timeout need it once in that time, not once each.
func (n *node) expireBy(deadline time.Time) {
	if n.expires.IsZero() || deadline.Before(n.expires) {
		n.expires = deadline
		n.expiry.Reset(time.Until(deadline))
	}
}

// expire fails the calls whose deadline has passed. They return to their callers although they
// may be in flight.
func (n *node) expire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now() //nolint:forbidigo // deadlines of callers
	n.expires = time.Time{}
	n.queue = n.expireList(n.queue, now)
	for _, b := range n.inFlight {
		n.expireList(b.calls, now)
	}
}

// expireList fails the calls of the list whose deadline has passed. It returns the others, and sets the timer for
// them.
func (n *node) expireList(list []*pending, now time.Time) []*pending {
	var waiting []*pending
	for _, p := range list {
		switch {
		case p.isFinished.Load():
		case p.deadline.After(now):
			n.expireBy(p.deadline)
			waiting = append(waiting, p)
		default:
			p.finish(outcome{err: p.deadlineError()})
		}
	}
	return waiting
}

// isDown reports whether the breaker is open.
func (n *node) isDown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.breaker.isOpen
}

// queueLength returns the number of queued calls.
func (n *node) queueLength() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.queue)
}

// isUnusedSince reports whether the node had no call since then, has an empty queue and a closed breaker.
func (n *node) isUnusedSince(t time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.latest.Before(t) && len(n.queue) == 0 && !n.breaker.isOpen
}
