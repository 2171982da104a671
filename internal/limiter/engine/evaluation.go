// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// evaluation is one check on its way to a decision: the policies that apply, the call to the store for those
// whose limits decide, and its reply.
type evaluation struct {
	search     // of the phase match
	operations // of the phases charges and store

	check   *limiter.Check
	reserve *limiter.Reserve // whose Check this is; nil for plain checks
	start   time.Time

	outrightDenials []outrightDenial
	unchecked       []uncheckedPolicy
	uncheckedPlaces map[*policy]int // in unchecked, until it is sorted
	exempt          []*policy       // policies whose override exempts the key
	givenKey        store.Key       // the key of the check, encoded; empty if it has none
	capacity        *capacity       // of the Namespace whose policy is being added; nil is unbounded
	sawDisabled     bool            // a policy with mode Disabled was named

	reservationID string // of a reserve
	withdraws     bool   // the IDs were made here, so the caller cannot retry: cancel the reservations if it goes away

	lateCharges *operations  // spent whatever the limits admit; nil if none
	trials      []trialCheck // one for each policy with candidates
	local       *operations  // of the policies with failureMode Local, if the store did not answer
}

// trialCheck evaluates a check again, with the candidates of one policy and the limits in force of all
// others. It follows the check, and answers no caller.
type trialCheck struct {
	*operations // the charged policies have the candidates

	comparisons []comparison // of the operations, in the same order
}

// comparison is one operation of a trialCheck, and the verdicts that it is compared with.
type comparison struct {
	*trial

	original int    // index of the operation of the check
	live     []bool // whether the limits with a candidate allow the check, in the order of replaced
}

// outrightDenial is a denial that needs no counter: by an override with action Deny, or
// for a missing key.
type outrightDenial struct {
	*policy
	reason      limiter.Reason
	override    string
	descriptors descriptorSet
}

var evaluations = sync.Pool{New: func() any { return &evaluation{} }}

// newEvaluation returns an evaluation of the valid check, which began at start.
func newEvaluation(v *preparedSnapshot, check *limiter.Check, start time.Time) *evaluation {
	ev := evaluations.Get().(*evaluation) //nolint:forcetypeassert // the pool holds only these
	ev.overQuota, ev.prepared, ev.check, ev.start = -1, v, check, start
	check.Attributes.Normalize()
	return ev
}

// release returns the evaluation and its operations to the pools. What a store still uses is left to the
// garbage collector.
func (ev *evaluation) release() {
	if ev.local != nil {
		ev.local.release()
	}
	if ev.lateCharges != nil {
		ev.lateCharges.release()
	}
	if !ev.isFree() {
		return
	}
	ev.clear()
	clear(ev.matches)
	clear(ev.found)
	clear(ev.demands)
	clear(ev.outrightDenials)
	*ev = evaluation{
		operations: ev.operations, search: search{matches: ev.matches[:0], found: ev.found[:0], demands: ev.demands[:0]},
		outrightDenials: ev.outrightDenials[:0],
	}
	evaluations.Put(ev)
}

// decided returns the operations that decide the check.
func (ev *evaluation) decided() *operations { return cmp.Or(ev.local, &ev.operations) }

// outcome returns the operation that decided for the i-th charged policy, and whether the store did. If this process
// did, the operation is the local one for the same policy and key; if neither did, it has no reply.
func (ev *evaluation) outcome(i int) (op operation, inStore bool) {
	op = ev.at(i)
	if op.reply != nil || ev.local == nil || op.plan.FailureMode != plan.FailLocal {
		return op, op.reply != nil
	}
	at := 0
	for _, cp := range ev.charged[:i] {
		if cp.plan.FailureMode == plan.FailLocal {
			at++
		}
	}
	return ev.local.at(at), false
}
