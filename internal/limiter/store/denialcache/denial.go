// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// denial is the reply of the store to a call that it denied.
type denial struct {
	call  *store.Call // a copy
	reply *store.Reply
	// changes is the number of changes of the keys before the call, see Cache.
	changes uint64
	// received is when the reply arrived: Redis decided before.
	received time.Time
	// until is when the call may be admitted at the earliest, counted from when it was sent.
	until time.Time
	// checked is when Redis was last asked, and answered is true if the denial has answered a call since. The lock of
	// the shard guards both.
	checked  time.Time
	answered bool
}

// mayBeCached reports whether the denial of the call, if it is one, may be cached. A peek must
// show the current state, Suppressed observes every check, and a Reserve may repeat one that was
// admitted.
func mayBeCached(c *store.Call) bool {
	for i := range c.Entries {
		if e := &c.Entries[i]; e.Peek || e.Action != store.Check || e.Policy.Observes() {
			return false
		}
	}
	return !c.Denied && !c.Uncached
}

// rounding is how much longer than necessary a wait may be: a TTL is in whole milliseconds.
const rounding = time.Millisecond

// newDenial returns the denial to cache for the reply, or nil if the call is not denied or if
// the same call would write something.
func (c *Cache) newDenial(call *store.Call, reply *store.Reply, changes uint64, sent time.Time) *denial {
	wait := denialTime(call, reply) - rounding
	if wait <= 0 {
		return nil
	}
	d := &denial{
		call: call.Clone(), reply: reply.Clone(), changes: changes,
		received: c.now(), until: sent.Add(wait), checked: sent,
	}
	for i := range d.reply.Entries {
		if e := &d.reply.Entries[i]; e.Verdict == store.BlockStarted {
			e.Verdict = store.Blocked // the next call meets the block that this one started
		}
	}
	return d
}

// denialTime returns how long the same call is denied without writing anything; 0 if it is not.
func denialTime(call *store.Call, reply *store.Reply) time.Duration {
	denied, silent := time.Duration(0), store.Never
	for i := range reply.Entries {
		policy, r := call.Entries[i].Policy, &reply.Entries[i]
		if r.Overflow || r.RequestIgnored {
			return 0 // the answer is not about this entry
		}
		if !policy.IsShadow() && r.Verdict != store.Admitted {
			denied = max(denied, certainWait(policy, r))
		}
		// Such a policy counts a denied check or starts a block, unless its key is blocked.
		if policy.WritesDenials() {
			if r.Verdict < store.Blocked {
				return 0
			}
			if silent == store.Never || r.BlockLeft < silent {
				silent = r.BlockLeft
			}
		}
	}
	if silent != store.Never {
		return min(denied, silent)
	}
	return denied
}

// waitOfEntry returns the time until the entry admits its cost.
func waitOfEntry(r *store.EntryReply) time.Duration {
	wait := r.BlockLeft
	for i := range r.Limits {
		wait = max(wait, r.Limits[i].RetryAfter)
	}
	return wait
}

// slicesWait is how long a denial is remembered while replicas have slices of the key. They return what they do not spend,
// which is not announced.
const slicesWait = 20 * time.Millisecond

// certainWait returns how long nothing but an operator can make the entry admit its cost. A
// commit, which is not announced to other replicas, can make room where there are holds.
func certainWait(p *store.Policy, r *store.EntryReply) time.Duration {
	switch {
	case r.Held > 0 && p.TakesSlices():
		return max(r.BlockLeft, min(waitOfEntry(r), slicesWait))
	case r.Held > 0:
		return r.BlockLeft
	}
	return waitOfEntry(r)
}

// isFor reports whether the call has the same policies and keys.
func (d *denial) isFor(call *store.Call) bool {
	return slices.EqualFunc(d.call.Entries, call.Entries, func(a, b store.Entry) bool {
		return a.Policy == b.Policy && a.Key == b.Key
	})
}

// denies reports whether the call, for the same policies and keys, is denied for the same time:
// its costs are the same, or larger and the wait does not depend on them.
func (d *denial) denies(call *store.Call) bool {
	for i := range call.Entries {
		denied, asked := d.call.Entries[i].Cost, call.Entries[i].Cost
		if asked < denied || asked > denied && !waitsAlike(&d.reply.Entries[i], &call.Entries[i]) {
			return false
		}
	}
	return true
}

// isBlocked reports whether a block denies the policies and keys, whatever the costs are.
func (d *denial) isBlocked(now time.Time) bool {
	for i := range d.reply.Entries {
		e := &d.reply.Entries[i]
		if e.Verdict == store.Blocked && !d.call.Entries[i].Policy.IsShadow() && now.Before(d.received.Add(e.BlockLeft)) {
			return true
		}
	}
	return false
}

// waitsAlike reports whether the reply, with its waits, is also the one to the entry with a larger
// cost: all limits are FixedWindow, which wait until their window ends, and admit it or not as
// before.
func waitsAlike(r *store.EntryReply, e *store.Entry) bool {
	for i := range r.Limits {
		l := &e.Policy.Limits()[i]
		if l.Algorithm != store.FixedWindow || r.Limits[i].Admits != (r.Limits[i].Used+e.Cost <= l.Quota) {
			return false
		}
	}
	return true
}

// replyTo returns the reply to the call at the given time, in the memory of the call. Waits are
// counted from the time when the reply of Redis arrived, so that waiting for them is enough.
func (d *denial) replyTo(call *store.Call, now time.Time) *store.Reply {
	age := now.Sub(d.received)
	less := func(wait time.Duration) time.Duration {
		if wait <= 0 {
			return wait
		}
		return max(0, wait-age)
	}
	reply := call.NewReply()
	reply.FromCache = true
	for i := range reply.Entries {
		e, cached := &reply.Entries[i], &d.reply.Entries[i]
		e.Verdict, e.BlockLeft, e.BlockedBy = cached.Verdict, less(cached.BlockLeft), cached.BlockedBy
		for j := range e.Limits {
			l := &e.Limits[j]
			*l = cached.Limits[j]
			l.RetryAfter, l.ResetAfter = less(l.RetryAfter), less(l.ResetAfter)
		}
	}
	return reply
}
