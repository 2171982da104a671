// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"sync/atomic"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	hotKeys = 1024
	// countBits are the bits of a counter; the others identify its key.
	countBits = 24
	maxCount  = 1<<countBits - 1
	// attempts bounds how often a writer tries to increment a counter that others change.
	attempts = 4
	// idleFlushes is after how many flushes without denials a key loses its counter.
	idleFlushes = 4
)

// hot counts the denials of keys that were denied recently, so that a key that is denied all the time
// does not fill the buffer. A word of a counter holds bits of the hash of its key, and the count since
// the last flush.
type hot struct {
	counters [hotKeys]atomic.Uint64
	owners   [hotKeys]hotOwner // used by the reader only
}

// hotOwner is the key of a counter.
type hotOwner struct {
	policy string
	key    store.Key // as in the summary
	length int
	hash   uint64
	idle   int // flushes without denials
}

// tagOf returns the bits of the hash that a counter holds, never 0. Different keys with the same bits
// are counted as one, with a probability of 2^-50 for each pair; the hash has a random seed.
func tagOf(hash uint64) uint64 { return hash>>countBits<<countBits | 1<<countBits }

// add counts one denial, and reports whether the key has a counter.
func (h *hot) add(hash uint64) bool {
	counter, tag := &h.counters[hash%hotKeys], tagOf(hash)
	for range attempts {
		word := counter.Load()
		if word&^maxCount != tag || word&maxCount == maxCount {
			return false
		}
		if counter.CompareAndSwap(word, word+1) {
			return true
		}
	}
	return false
}

// own gives the key a counter, if the place of its hash is free.
func (h *hot) own(o hotOwner) {
	i := o.hash % hotKeys
	if h.owners[i].hash == 0 {
		h.owners[i] = o
		h.counters[i].Store(tagOf(o.hash))
	}
}

// flush passes the counts to use, and takes the counters of keys that were not denied for some
// flushes.
func (h *hot) flush(use func(o *hotOwner, count int64)) {
	for i := range h.owners {
		o := &h.owners[i]
		if o.hash == 0 {
			continue
		}
		counter := &h.counters[i]
		if o.idle >= idleFlushes && counter.CompareAndSwap(tagOf(o.hash), 0) {
			*o = hotOwner{}
			continue
		}
		if count := int64(counter.Swap(tagOf(o.hash)) & maxCount); count > 0 {
			use(o, count)
			o.idle = 0
		} else {
			o.idle++
		}
	}
}
