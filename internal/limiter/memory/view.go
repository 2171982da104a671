// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/weir-dev/weir/internal/limiter/script"

// entry is one entry of a call, on its way to its reply.
type entry struct {
	policy *script.Policy
	cost   int64
	peek   bool
	// overflow is true for the overflow budget of the policy.
	overflow bool

	id       id
	shard    *shard
	caller   uint32 // its number, or 0
	ends     int64  // when the first of its states ended, before the call
	isKnown  bool   // it has a state that a limit uses, or a block
	reserved bool   // room for the caller is reserved
	unfiled  bool   // the caller has been added and is in no slot of the wheel

	now   int64 // microseconds
	views []view
}

// held is a state that a call works on: the stored one, or a copy if the entry is a peek or
// the state does not exist.
type held struct {
	*state

	own    state
	number uint32 // of the stored state, or 0
	spent  bool   // the state has to be stored
	log    *hitLog
}

// view is one limit of an entry. All times are microseconds of the store's clock.
type view struct {
	*held

	entry     *entry
	limit     *script.Limit
	algorithm algorithm
	window    int64
}

// algorithm is how a limit counts. docs/algorithms.md has the promises.
type algorithm interface {
	// used returns the units held now.
	used(v *view) int64
	// timeToFit returns how long it takes until the cost, which is at most the quota, fits; 0 if
	// it fits now.
	timeToFit(v *view) int64
	// usedAfter returns the units held after that time.
	usedAfter(v *view, wait int64) int64
	// resetAfter returns how long it takes until used is 0.
	resetAfter(v *view) int64
	// spend records the cost. passes is true if the entry and the check are admitted.
	spend(v *view, passes bool)
}

var algorithms = map[script.Algorithm]algorithm{
	script.FixedWindow:   fixedWindow{},
	script.SlidingLog:    slidingLog{},
	script.SlidingWindow: slidingWindow{},
	script.TokenBucket:   tokenBucket{},
	script.GCRA:          gcra{},
	script.Suppressed:    suppressed{},
}

// keepAlive returns how long the state exists, after it has extended a life that is shorter
// than needed, as it can be after an edit. A peek extends nothing.
func (v *view) keepAlive(need int64) int64 {
	left := v.left(v.entry.now)
	if left >= need || v.entry.peek {
		return left
	}
	v.expireAfter(v.entry.now, need)
	return need
}
