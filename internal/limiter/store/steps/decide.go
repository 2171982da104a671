// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Decide decides the call, whose ended holds have been settled. It sets all of the reply but
// Settled.
func Decide(call *store.Call, reply *store.Reply, entries []Entry) {
	denied, repeated := call.Denied, false
	for i := range entries {
		e, r := &entries[i], &reply.Entries[i]
		e.judgeLimits(r, call.Draw)
		repeated = repeated || e.foundHold(r)
	}
	for i := range entries {
		e, r := &entries[i], &reply.Entries[i]
		if repeated {
			e.admitRepeated(r)
		}
		denied = denied || r.Verdict != store.Admitted && !e.Policy.IsShadow()
	}
	for i := range entries {
		entries[i].spend(&reply.Entries[i], denied)
	}
	for i := range entries {
		entries[i].report(&reply.Entries[i], denied)
	}
}

// judgeLimits sets the verdict of the entry and, of each limit, whether it admits the cost.
func (e *Entry) judgeLimits(r *store.EntryReply, draw uint32) {
	if e.Action > store.Reserve {
		for i := range r.Limits {
			r.Limits[i].Admits = true
			if e.limit(i).Algorithm == store.Suppressed {
				_, _, r.Limits[i].Suppression = e.Judge(i, draw)
			}
		}
		return
	}
	if left, by, live := e.Block(); live {
		r.Verdict, r.BlockLeft, r.BlockedBy = store.Blocked, left, by
	}
	held := e.Holds.Units()
	limits := e.Policy.Limits()
	for i := range limits {
		l, lr := &limits[i], &r.Limits[i]
		if l.Algorithm == store.Suppressed {
			lr.Admits, lr.Shed, lr.Suppression = e.Judge(i, draw)
		} else {
			lr.Admits = e.used(i)+held+e.Cost <= l.Quota
		}
		if !lr.Admits && r.Verdict == store.Admitted {
			r.Verdict = store.Denied
		}
	}
	if e.Policy.TakesHold(e.Action) {
		e.judgeReserve(r)
	}
}

// spend records the cost of the entry and starts its block.
func (e *Entry) spend(r *store.EntryReply, denied bool) {
	if e.Peek || r.Verdict == store.Blocked || e.isRepeated {
		return
	}
	passes, writes := r.Verdict == store.Admitted && !denied, false
	switch {
	case e.Action > store.Reserve:
		writes = e.changeAndBlock(r)
	case !e.Policy.TakesHold(e.Action):
		writes = e.spendLimits(passes)
	case passes:
		e.takeHold(e.Cost)
		r.Hold, writes = store.HoldTaken, true
	}
	if r.Verdict == store.Denied && e.Policy.StartsBlocks() && e.startBlock(r, e.mayStartBlock) {
		writes = true
	}
	r.Began = writes && !e.IsKnown
}

// spendLimits records the cost in every limit that counts the check, and reports whether one does.
func (e *Entry) spendLimits(passes bool) (spent bool) {
	limits := e.Policy.Limits()
	for i := range limits {
		counts := passes || e.Policy.CountsAttempts() || limits[i].Algorithm == store.Suppressed
		if counts && !e.isStateless(i) {
			e.Spend(i, passes)
			spent = true
		}
	}
	return spent
}

// startBlock starts the longest block of the limits that may start one, named after the first of them.
func (e *Entry) startBlock(r *store.EntryReply, mayStart func(r *store.EntryReply, i int) bool) (started bool) {
	var longest time.Duration
	by := ""
	for i := range r.Limits {
		if mayStart(r, i) {
			longest = max(longest, e.limit(i).BlockLength(e.earlierBlocks(i)))
			by = cmp.Or(by, e.limit(i).Name)
		}
	}
	if longest == 0 {
		return false
	}
	for i := range r.Limits {
		if e.limit(i).Escalation != nil && mayStart(r, i) {
			e.CountBlock(i, longest)
		}
	}
	r.Verdict, r.BlockLeft, r.BlockedBy = store.BlockStarted, e.StartBlock(by, longest), by
	return true
}

func (e *Entry) earlierBlocks(i int) int64 {
	if e.limit(i).Escalation == nil {
		return 0
	}
	return e.EarlierBlocks(i)
}

// mayStartBlock reports whether the limit denies by itself: neither by chance nor because of holds.
func (e *Entry) mayStartBlock(r *store.EntryReply, i int) bool {
	return !r.Limits[i].Admits && !r.Limits[i].Shed && !e.waitsForHolds(r, i)
}

// changeAndBlock does what change does, starts the block of a commit, and reports whether it wrote.
func (e *Entry) changeAndBlock(r *store.EntryReply) (spent bool) {
	spent = e.change(r)
	if spent && e.commitMayBlock() {
		e.startBlock(r, e.isFull)
	}
	return spent
}

// commitMayBlock reports whether the entry commits, for a policy that blocks on commits, a key without a live block.
func (e *Entry) commitMayBlock() bool {
	if e.Action == store.Charge || !e.Policy.BlocksOnCommit() {
		return false
	}
	_, _, live := e.Block()
	return !live
}

// isFull reports whether the quota of the limit is spent. Held units do not count.
func (e *Entry) isFull(_ *store.EntryReply, i int) bool { return e.used(i) >= e.limit(i).Quota }

// report sets the state of the limits after the call and, after a denial, the times to wait.
func (e *Entry) report(r *store.EntryReply, denied bool) {
	r.Held, r.Open = e.Holds.Units(), e.Holds.Len()
	if e.Action > store.Check || r.Open > 0 || r.Settled > 0 {
		r.DebtCut = e.DebtCut()
	}
	for i := range r.Limits {
		l, lr := e.limit(i), &r.Limits[i]
		lr.Used = e.used(i)
		lr.UsedAfterWaiting = lr.Used
		lr.ResetAfter = e.resetAfter(i, r.Held)
		switch {
		case e.Action > store.Reserve, e.isRepeated:
		case e.Cost > l.Quota:
			lr.RetryAfter = store.Never
		case denied || r.Verdict != store.Admitted:
			lr.WaitsForHolds = e.waitsForHolds(r, i)
			lr.RetryAfter = max(e.retryAfter(i, r.Held, lr.Admits), r.BlockLeft)
			if !e.isStateless(i) {
				lr.UsedAfterWaiting = e.UsedAfter(i, lr.RetryAfter.Microseconds())
			}
		}
		lr.Used, lr.UsedAfterWaiting = lr.Used+r.Held, lr.UsedAfterWaiting+r.Held
		lr.SaturateAt(e.Policy, l)
	}
}
