// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/steps"
)

// entry is one entry of a call, on its way to its reply: the States of its steps.
type entry struct {
	*store.Entry

	peek bool // writes nothing; false while ended holds are settled
	// overflow is true for the overflow budget of the policy.
	overflow bool

	hashes   *hashes
	id       id
	shard    *shard
	caller   uint32 // its number, or 0
	ends     int64  // when the first of its states ended, before the call
	isKnown  bool   // it has a state that a limit uses, or a block
	tookRoom bool   // room for the caller is taken
	unfiled  bool   // the caller has been added and is in no slot of the wheel

	now   int64 // microseconds
	views []view

	holds   *steps.HoldSet // nil without any
	debtCut int64
	settled []settledBucket
}

// settledBucket is what judges a call by a bucket in which it has settled holds.
type settledBucket struct {
	id      stateID
	current deficits
}

// opened is a state that a call works on: the stored one, or a copy if the entry is a peek or
// the state does not exist.
type opened struct {
	*state

	own    state
	number uint32 // of the stored state, or 0
	spent  bool   // the state has to be stored
	log    *hitLog
	beside       // the state of a bucket
	past   *past // while holds are settled
	// current is what a bucket that the call has written judges it by.
	current   deficits
	isCurrent bool
}

// view is one limit of an entry. All times are microseconds of the store's clock.
type view struct {
	*opened

	entry     *entry
	limit     *store.Limit
	algorithm algorithm // nil for Concurrency, which has no state but the holds
	window    int64
	sharesLog bool // with an earlier limit, which records in it
}

// The methods of entry that start with capitals are steps.States.

func (e *entry) Used(i int) int64 { return e.views[i].algorithm.used(&e.views[i]) }

func (e *entry) UsedAfter(i int, wait int64) int64 {
	return e.views[i].algorithm.usedAfter(&e.views[i], wait)
}

func (e *entry) TimeToFit(i int, cost int64) int64 {
	return e.views[i].algorithm.timeToFit(&e.views[i], cost)
}

func (e *entry) ResetAfter(i int) int64 { return e.views[i].algorithm.resetAfter(&e.views[i]) }

func (e *entry) AfterLast(i int, held, last, wait int64) int64 {
	return e.views[i].algorithm.afterLast(&e.views[i], held, last, wait)
}

func (e *entry) Judge(i int, draw uint32) (admits, shed bool, suppression float64) {
	return suppressed{}.judgeHit(&e.views[i], draw)
}

func (e *entry) Spend(i int, passes bool) {
	if v := &e.views[i]; !v.sharesLog {
		v.algorithm.spend(v, passes)
		v.spent = true
	}
}

func (e *entry) DebtCut() int64 { return e.debtCut }

// algorithm is how a limit counts. docs/algorithms.md has the promises.
type algorithm interface {
	// used returns the units that are spent.
	used(v *view) int64
	// timeToFit returns how long it takes until the cost, which is at most the quota, fits; 0 if
	// it fits now.
	timeToFit(v *view, cost int64) int64
	// usedAfter returns the units that are spent after that time.
	usedAfter(v *view, wait int64) int64
	// resetAfter returns how long it takes until used is 0.
	resetAfter(v *view) int64
	// spend records the cost. passes is true if the entry and the check are admitted. The cost of a
	// commit or a charge may exceed the quota.
	spend(v *view, passes bool)
	// settle records the units of an ended hold, as of that time, or of the state if it is later.
	settle(v *view, units, at int64)
	// endSettling stores what settle changed.
	endSettling(v *view)
	// keep keeps what settle needs as long as the last hold.
	keep(v *view)
	// afterLast returns how long it takes, at the latest, until nothing is used if all holds are spent
	// as the last one ends, after that time; wait is the result of resetAfter.
	afterLast(v *view, held, last, wait int64) int64
}

var algorithms = map[store.Algorithm]algorithm{
	store.FixedWindow:   fixedWindow{},
	store.SlidingLog:    slidingLog{},
	store.SlidingWindow: slidingWindow{},
	store.TokenBucket:   refills{tokenBucket{}},
	store.GCRA:          refills{gcra{}},
	store.Suppressed:    suppressed{},
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
