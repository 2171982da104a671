// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// maxBatchCalls bounds the calls of one batch.
	maxBatchCalls = 32
	// maxBatchKeys bounds the keys of a batch of several calls, and so the time for which
	// its script blocks Redis.
	maxBatchKeys = 256
)

// pending is one call on its way through a batch.
//
// A caller whose context ends, or whose deadline passes, stops waiting. If its call is still
// queued, the call is not charged. If it is in flight, its cost may be spent, and the other
// calls of the batch are not affected.
type pending struct {
	ctx      context.Context //nolint:containedctx // the trace of the batch
	call     *store.Call
	mode     mode
	deadline time.Time

	isCallersDeadline bool // deadline is from the caller, not from Store.timeout

	keyBits uint64 // see keyBitsOf

	isFinished atomic.Bool   // the caller has an outcome, or has stopped waiting
	done       chan struct{} // receives one value when outcome is set
	outcome    outcome

	keyText  []byte   // the Redis keys of the call, one after the other
	keyEnds  []int    // where each of them ends
	keyNames []string // the Redis keys
}

// mode is how a group of a call is evaluated, see spread.go. It is zero for calls that one script call decides.
type mode struct {
	// receipts is true if the result identifies the spent units, for a refund.
	receipts bool
	// precheck spends nothing, but repairs state, see entryPrecheck.
	precheck bool
	// repeated is true if the call repeats one that has taken holds, perhaps in other groups.
	repeated bool
}

// outcome is what Redis returned for one call: values to decode, or an error.
type outcome struct {
	values []any
	err    *store.Error
}

// failAll returns the outcomes of n calls that all failed.
func failAll(n int, err *store.Error) []outcome { return slices.Repeat([]outcome{{err: err}}, n) }

var pendings = sync.Pool{New: func() any { return &pending{done: make(chan struct{}, 1)} }}

// newPending returns the call as pending, until the deadline that Store.deadline returned for ctx.
func newPending(ctx context.Context, call *store.Call, m mode, deadline time.Time) *pending {
	p := pendings.Get().(*pending) //nolint:forcetypeassert // the pool holds only these
	p.ctx, p.call, p.mode, p.deadline = ctx, call, m, deadline
	callers, ok := ctx.Deadline()
	p.isCallersDeadline = ok && !deadline.Before(callers.Add(-callerMargin))
	p.isFinished.Store(false)
	p.keyBits = keyBitsOf(call)
	return p
}

var keySeed = maphash.MakeSeed()

// keyBitsOf returns a bit for each key of the call, by its hash: calls without a common bit have no key in common.
func keyBitsOf(call *store.Call) (keyBits uint64) {
	for i := range call.Entries {
		keyBits |= 1 << (maphash.String(keySeed, string(call.Entries[i].Key)) % 64)
	}
	return keyBits
}

// finish sets the outcome and wakes the caller, unless the caller has an outcome or has stopped waiting.
func (p *pending) finish(o outcome) {
	if p.isFinished.CompareAndSwap(false, true) {
		p.outcome = o
		p.done <- struct{}{}
	}
}

// wait waits for the outcome and decodes it.
func (p *pending) wait(ctx context.Context) (result, error) {
	var canceled <-chan struct{}
	if !p.isFinished.Load() { // a caller that has sent its batch itself has its outcome
		canceled = ctx.Done()
	}
	select {
	case <-p.done:
	case <-canceled:
		if p.isFinished.CompareAndSwap(false, true) {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return result{}, errCallersDeadline
			}
			return result{}, storeError(ctx, ctx.Err())
		}
		<-p.done
	}
	if p.outcome.err != nil {
		return result{}, p.outcome.err // the call may still be in flight
	}
	decoded, err := decodeReply(p.call, p.mode.receipts, p.outcome.values)
	clear(p.keyNames)
	p.ctx, p.call, p.outcome = nil, nil, outcome{}
	pendings.Put(p)
	return decoded, err
}

var (
	errDeadline        = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	errCallersDeadline = &store.Error{Cause: store.CauseDeadline, Err: fmt.Errorf("the caller waits no longer: %w", context.DeadlineExceeded)}
)

// deadlineError returns the error of a call whose deadline has passed.
func (p *pending) deadlineError() *store.Error {
	if p.isCallersDeadline {
		return errCallersDeadline
	}
	return errDeadline
}

// nextBatch takes the first calls that may share a batch from the queue, and drops finished calls among them. It
// returns the batch and the rest of the queue.
func nextBatch(queue []*pending) (batch, rest []*pending) {
	batch = make([]*pending, 0, min(len(queue), maxBatchCalls))
	keys, taken := 0, 0
	for _, p := range queue {
		if !p.isFinished.Load() {
			keys += keysOf(p.call)
			if len(batch) == maxBatchCalls || len(batch) > 0 && keys > maxBatchKeys {
				break
			}
			batch = append(batch, p)
		}
		taken++
	}
	return batch, slices.Delete(queue, 0, taken)
}
