// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxBatchCalls bounds the calls of one batch.
	maxBatchCalls = 32
	// maxBatchKeys bounds the keys of a batch of several calls, and so the time for which
	// its script blocks Redis.
	maxBatchKeys = 256
)

// batcher lets concurrent calls share round trips, without a timer: a batch is the calls that
// were queued while the previous batch was in flight. At most one batch is in flight. The
// calls of a batch are decided in the order of their arrival.
//
// A caller whose context ends leaves the queue without being charged. If its batch is in
// flight already, the batch continues: the cost of that call may be spent, and the other
// calls of the batch are not affected.
type batcher struct {
	// send decides the calls and sets their replies and errors.
	send func(ctx context.Context, batch []*pending)

	mu    sync.Mutex
	busy  bool // a batch is in flight
	queue []*pending
}

// pending is one call on its way through a batch.
type pending struct {
	ctx      context.Context //nolint:containedctx // its deadline bounds the batch
	call     *Call
	receipts bool          // the reply identifies the spent units, for a refund
	done     chan struct{} // closed when reply and err are set

	reply *Reply
	err   error
}

// do decides the call in a batch with others.
func (b *batcher) do(ctx context.Context, call *Call) (*Reply, error) {
	p := &pending{ctx: ctx, call: call}
	if !b.enqueue(p) {
		// No batch is in flight, so there is nothing to wait for.
		defer b.finish() //nolint:contextcheck // the queued calls bring their own contexts
		b.send(ctx, []*pending{p})
		return p.reply, p.err
	}
	select {
	case <-p.done:
		return p.reply, p.err
	case <-ctx.Done():
		b.leave(p)
		return nil, storeError(ctx, ctx.Err())
	}
}

// enqueue queues the call if a batch is in flight. Otherwise it returns false, and the caller
// must send the call itself and then call finish.
func (b *batcher) enqueue(p *pending) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.busy {
		b.busy = true
		return false
	}
	p.done = make(chan struct{})
	b.queue = append(b.queue, p)
	return true
}

// leave removes a queued call. A call in flight stays.
func (b *batcher) leave(p *pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.queue, p); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
}

// finish sends the queued calls in the background, so that the caller of the first batch
// does not wait for them.
func (b *batcher) finish() {
	if batch := b.next(); batch != nil {
		go func() {
			for ; batch != nil; batch = b.next() {
				b.flush(batch)
			}
		}()
	}
}

// next takes a batch from the queue. It returns nil if the queue is empty; then no batch is
// in flight any more.
func (b *batcher) next() []*pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, keys := 0, 0
	for ; n < min(len(b.queue), maxBatchCalls); n++ {
		if keys += b.queue[n].call.keys(); n > 0 && keys > maxBatchKeys {
			break
		}
	}
	if n == 0 {
		b.busy = false
		return nil
	}
	batch := slices.Clone(b.queue[:n])
	b.queue = slices.Delete(b.queue, 0, n)
	return batch
}

// flush sends the batch and wakes its callers. It runs outside the goroutines of the callers,
// so it turns a panic into an error of the batch.
func (b *batcher) flush(batch []*pending) {
	ctx, cancel := batchContext(batch)
	defer cancel()
	defer func() {
		cause := recover()
		for _, p := range batch {
			if cause != nil {
				p.err = &StoreError{Cause: CauseScript, Err: fmt.Errorf("panic: %v", cause)}
			}
			close(p.done)
		}
	}()
	b.send(ctx, batch)
}

// batchContext returns a context that ends at the latest deadline of the callers, and not
// when one of them cancels.
func batchContext(batch []*pending) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(batch[0].ctx)
	var latest time.Time
	for _, p := range batch {
		deadline, bounded := p.ctx.Deadline()
		if !bounded {
			return context.WithCancel(ctx)
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	return context.WithDeadline(ctx, latest)
}
