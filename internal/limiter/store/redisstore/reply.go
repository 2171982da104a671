// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

var errReply = errors.New("reply does not have the form of batch.lua")

// result is the reply to a call, and the values for the store only.
type result struct {
	*store.Reply
	// undecided are the indexes of the entries that prevented a decision, see undecided in
	// decide.lua. The call must then be sent again with other entries.
	undecided []int
	// repaired are the indexes of the entries that replaced a value or a key of another type, which was not a
	// state of their limits.
	repaired []int
	// receipts identify the units that each limit spent, for a refund; nil unless mode.receipts is set.
	receipts []int64
}

// nextValues divides what batch.lua returned into the values of the call and the values of later calls. Both are
// nil if they have another form. The value of an error is its text.
func nextValues(c *store.Call, all []any) (values, later []any) {
	if len(all) == 0 {
		return nil, nil
	}
	n := 1
	switch first := all[0].(type) {
	case []any:
		return first, all[1:]
	case int64:
		n += 2 * len(c.Entries[0].Policy.Limits())
	}
	if n > len(all) {
		return nil, nil
	}
	return all[:n:n], all[n:]
}

// decodeReply reads the values that batch.lua returns for a call.
func decodeReply(call *store.Call, receipts bool, values []any) (result, error) {
	c := replyCursor{values: values, result: result{Reply: call.NewReply()}}
	if len(values) > 0 && values[0] == int64(undecided) {
		return decodeUndecided(call, c.result, values[1:])
	}
	for i := range c.Entries {
		c.readEntry(call, i, receipts)
	}
	if c.bad || len(c.values) > 0 {
		return result{}, &store.Error{Cause: store.CauseScript, Err: errReply}
	}
	return c.result, nil
}

// replyCursor reads the values of a reply one after the other.
type replyCursor struct {
	result

	values []any
	bad    bool
}

// decodeUndecided reads the indexes of the entries that prevented a decision.
func decodeUndecided(call *store.Call, r result, values []any) (result, error) {
	for _, value := range values {
		i, ok := value.(int64)
		if !ok || i < 0 || int(i) >= len(call.Entries) || !call.Entries[i].MayBeUndecided() {
			return result{}, &store.Error{Cause: store.CauseScript, Err: errReply}
		}
		r.undecided = append(r.undecided, int(i))
	}
	return r, nil
}

// readEntry reads the verdict of entry i, the outcome of its hold, and the reports of its limits.
func (c *replyCursor) readEntry(call *store.Call, i int, receipts bool) {
	e, r := &call.Entries[i], &c.Entries[i]
	verdict := c.number()
	r.Verdict, r.Began = store.Verdict(verdict&reportVerdict), verdict&reportBegan != 0
	if verdict&reportRepaired != 0 {
		c.repaired = append(c.repaired, i)
	}
	c.bad = c.bad || verdict < 0 || r.Verdict > store.BlockStarted
	if r.Verdict >= store.Blocked {
		r.BlockLeft = micros(c.number())
		r.BlockedBy = c.text()
	}
	isShort := verdict&reportShort != 0
	if verdict&reportHolds != 0 {
		c.readHolds(r)
	}
	for j := range r.Limits {
		if isShort {
			c.readShort(&r.Limits[j])
		} else {
			c.readLimit(e.Policy, j, &r.Limits[j], receipts)
		}
	}
}

// readLimit reads the report of limit j of the policy.
func (c *replyCursor) readLimit(policy *store.Policy, j int, l *store.LimitReply, receipts bool) {
	limit := &policy.Limits()[j]
	admits := c.number()
	l.Admits, l.Shed, l.WaitsForHolds = admits == admitsCost, admits == admitsButSheds, admits == admitsAfterHolds
	l.Used = c.number()
	l.RetryAfter = waitOf(c.number())
	l.UsedAfterWaiting = c.number()
	l.ResetAfter = micros(c.number())
	if limit.Algorithm == store.Suppressed {
		l.Suppression = float64(c.number()) / millionths
	}
	if receipts {
		c.receipts = append(c.receipts, c.number())
	}
	l.SaturateAt(policy, limit)
}

// readShort reads the report of a limit that admits.
func (c *replyCursor) readShort(l *store.LimitReply) {
	l.Admits = true
	l.Used = c.number()
	l.UsedAfterWaiting = l.Used
	l.ResetAfter = micros(c.number())
}

// readHolds reads the outcome of the hold of an entry, and the holds of its key.
func (c *replyCursor) readHolds(e *store.EntryReply) {
	e.Hold = store.HoldOutcome(c.number())
	c.bad = c.bad || e.Hold < store.HoldNone || e.Hold > store.HoldsFull
	e.Estimate = c.number()
	e.Held, e.Open = c.number(), c.number()
	e.Settled, e.DebtCut = c.number(), c.number()
}

func (c *replyCursor) next() any {
	if len(c.values) == 0 {
		c.bad = true
		return nil
	}
	v := c.values[0]
	c.values = c.values[1:]
	return v
}

func (c *replyCursor) number() int64 {
	n, ok := c.next().(int64)
	c.bad = c.bad || !ok
	return n
}

func (c *replyCursor) text() string {
	s, ok := c.next().(string)
	c.bad = c.bad || !ok
	return s
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func waitOf(n int64) time.Duration {
	if n < 0 {
		return store.Never
	}
	return micros(n)
}
