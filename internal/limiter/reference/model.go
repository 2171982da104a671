// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// Model makes the same decisions in process that the scripts make in Redis. It is the
// reference of the tests, written to be simple, not fast. The zero value is ready for
// use.
type Model struct {
	mu     sync.Mutex
	states map[string]modelState
}

// modelState is the state of one limit, one log or one block.
type modelState interface{ alive(now int64) bool }

// counter is the state of one limit. now is the server time in microseconds since 1970;
// all other times are microseconds too. The methods correspond to those in prelude.lua.
type counter interface {
	used(e *quota.Entry, l *quota.Limit, now int64) int64
	usedAfter(e *quota.Entry, l *quota.Limit, now, wait int64) int64
	timeToFit(e *quota.Entry, l *quota.Limit, now int64) int64
	resetAfter(e *quota.Entry, l *quota.Limit, now int64) int64
	spend(e *quota.Entry, l *quota.Limit, now int64, passes bool)
}

// settler is a counter that can spend holds, see hold_model.go. at is when the hold ended.
type settler interface {
	settle(e *quota.Entry, l *quota.Limit, units, at, now int64)
	settled(e *quota.Entry, l *quota.Limit, now int64)
	keep(e *quota.Entry, l *quota.Limit, now int64)
	afterLast(l *quota.Limit, held, last, wait int64) int64
}

// observer is a counter that decides itself whether a check is admitted, and whose spend is
// called for every unblocked check.
type observer interface {
	judge(e *quota.Entry, l *quota.Limit, now int64, draw uint32) (admits, shed bool, suppression float64)
}

// block is the state of a block.
type block struct {
	by  string
	end expiry
}

func (b *block) alive(now int64) bool { return b.end.alive(now) }

// Clear deletes all states.
func (m *Model) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.states)
}

// Expire deletes the states that have expired at the server time now.
func (m *Model) Expire(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now.UnixMicro())
}

// Size returns the number of states. Some may have expired.
func (m *Model) Size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.states)
}

// Evaluate decides the call at the server time now.
func (m *Model) Evaluate(call *quota.Call, now time.Time) *quota.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := now.UnixMicro()
	m.expire(at)
	other := quota.NewSubstitution(call)
	for {
		undecided := m.undecided(other.Call(), at)
		if undecided == nil {
			break
		}
		other.Replace(undecided)
	}
	reply := m.decide(other.Call(), at)
	other.Mark(reply)
	return reply
}

// undecided returns the indexes of the entries that prevent a decision.
func (m *Model) undecided(call *quota.Call, now int64) (indexes []int) {
	for i := range call.Entries {
		e := &call.Entries[i]
		m.holds(e).dropOld(now)
		if e.OnlyKnown && !m.known(e, now) || e.Policy.OwnState() >= 0 && m.full(e, now) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// known reports whether the key has a state that one of the limits uses, or a block.
func (m *Model) known(e *quota.Entry, now int64) bool {
	if len(m.holds(e).open) > 0 {
		return true
	}
	for _, suffix := range append([]string{quota.BlockName(e.Policy.ID())}, stateNames(e.Policy)...) {
		if s := m.states[stateName(e.Key, suffix)]; s != nil && s.alive(now) {
			return true
		}
	}
	return false
}

// stateNames returns the names of the states in which the limits of the policy count.
func stateNames(p *quota.Policy) []string {
	names := make([]string, len(p.Limits()))
	for i := range names {
		names[i] = p.StateName(i)
	}
	return names
}

// full reports whether the requested limit has no state while 16 others have.
func (m *Model) full(e *quota.Entry, now int64) bool {
	own := stateName(e.Key, e.Policy.StateName(e.Policy.OwnState()))
	others := 0
	for name, s := range m.states {
		if !s.alive(now) {
			continue
		}
		if name == own {
			return false
		}
		if isRequested(name, e.Policy, e.Key) {
			others++
		}
	}
	return others >= 16
}

func (m *Model) decide(call *quota.Call, at int64) *quota.Reply {
	reply := &quota.Reply{Entries: make([]quota.EntryReply, len(call.Entries))}
	denied, repeated := call.Denied, false
	known, spent := make([]bool, len(call.Entries)), make([]bool, len(call.Entries))
	for i := range call.Entries {
		e, r := &call.Entries[i], &reply.Entries[i]
		known[i] = m.known(e, at)
		m.settle(e, r, at)
		m.judge(e, r, call.Draw, at)
		repeated = repeated || e.Policy.TakesHold(e.Action) && r.Hold == quota.HoldFound
	}
	for i := range call.Entries {
		e, r := &call.Entries[i], &reply.Entries[i]
		if repeated && admitRepeated(e, r) {
			spent[i] = true
		}
		denied = denied || r.Verdict != quota.Admitted && !e.Policy.IsShadow()
	}
	for i := range call.Entries {
		if !spent[i] {
			m.spend(&call.Entries[i], &reply.Entries[i], denied, known[i], at)
		}
	}
	for i := range call.Entries {
		m.report(&call.Entries[i], &reply.Entries[i], denied, spent[i], at)
	}
	return reply
}

func (m *Model) judge(e *quota.Entry, r *quota.EntryReply, draw uint32, now int64) {
	if e.Action > quota.Reserve {
		for i := range e.Policy.Limits() {
			l, lr := &e.Policy.Limits()[i], quota.LimitReply{Admits: true}
			if j, ok := m.counter(e, l).(observer); ok {
				_, _, lr.Suppression = j.judge(e, l, now, draw)
			}
			r.Limits = append(r.Limits, lr)
		}
		return
	}
	held := m.holds(e).units()
	if b := m.block(e); b.alive(now) {
		r.Verdict, r.BlockLeft, r.BlockedBy = quota.Blocked, inMicros(b.end.left(now)), b.by
	}
	for i := range e.Policy.Limits() {
		l, lr := &e.Policy.Limits()[i], quota.LimitReply{}
		c := m.counter(e, l)
		if j, ok := c.(observer); ok {
			lr.Admits, lr.Shed, lr.Suppression = j.judge(e, l, now, draw)
		} else {
			lr.Admits = c.used(e, l, now)+held+e.Cost <= l.Quota
		}
		if !lr.Admits && r.Verdict == quota.Admitted {
			r.Verdict = quota.Denied
		}
		r.Limits = append(r.Limits, lr)
	}
	if e.Policy.TakesHold(e.Action) {
		m.judgeReserve(e, r, now)
	}
}

func (m *Model) spend(e *quota.Entry, r *quota.EntryReply, denied, known bool, now int64) {
	if e.Peek || r.Verdict == quota.Blocked {
		return
	}
	passes := r.Verdict == quota.Admitted && !denied
	spent := false
	switch {
	case e.Action > quota.Reserve:
		spent = m.change(e, r, now)
	case !e.Policy.TakesHold(e.Action):
		spent = m.spendLimits(e, r, passes, now)
	case passes:
		m.takeHold(e, r, now)
		spent = true
	}
	r.Began = spent && !known
	if r.Verdict == quota.Denied {
		m.startBlock(e, r, now)
		r.Began = r.Began || r.Verdict == quota.Tripped && !known
	}
}

// spendLimits records the cost in every limit that counts the check, and reports whether one does.
func (m *Model) spendLimits(e *quota.Entry, r *quota.EntryReply, passes bool, now int64) (spent bool) {
	logged := false
	for i := range e.Policy.Limits() {
		l := &e.Policy.Limits()[i]
		c := m.counter(e, l)
		if _, observes := c.(observer); !passes && !e.Policy.CountsAttempts() && !observes {
			continue
		}
		if l.Algorithm == quota.Concurrency {
			continue
		}
		if l.Algorithm == quota.SlidingLog {
			if logged {
				continue // an earlier limit has spent in the shared log
			}
			logged = true
		}
		c.spend(e, l, now, passes)
		spent = true
		if d, ok := c.(debtor); ok {
			r.DebtCut += d.cutDebt(e, l, now)
		}
	}
	return spent
}

// mayStartBlock reports whether limit i denies by itself: neither by chance nor because of holds.
func (m *Model) mayStartBlock(e *quota.Entry, r *quota.EntryReply, i int, now int64) bool {
	return !r.Limits[i].Admits && !r.Limits[i].Shed && !m.waitsForHolds(e, r, i, now)
}

func (m *Model) startBlock(e *quota.Entry, r *quota.EntryReply, now int64) {
	var longest time.Duration
	var by string
	for i, l := range e.Policy.Limits() {
		if m.mayStartBlock(e, r, i, now) {
			longest = max(longest, l.BlockLength(m.earlierBlocks(e, &l, now)))
			if by == "" {
				by = l.Name
			}
		}
	}
	if longest == 0 {
		return
	}
	for i := range e.Policy.Limits() {
		if m.mayStartBlock(e, r, i, now) {
			m.countBlock(e, &e.Policy.Limits()[i], longest, now)
		}
	}
	b := m.block(e)
	b.by, b.end = by, expireIn(now, longest)
	r.Verdict, r.BlockLeft, r.BlockedBy = quota.Tripped, inMicros(b.end.left(now)), by
}

func (m *Model) report(e *quota.Entry, r *quota.EntryReply, denied, spent bool, now int64) {
	h := m.holds(e)
	r.Held, r.Open = h.units(), int64(len(h.open))
	if e.Action == quota.Check && r.Open == 0 && r.Settled == 0 {
		r.DebtCut = 0 // replies do not report it
	}
	for i := range e.Policy.Limits() {
		l, lr := &e.Policy.Limits()[i], &r.Limits[i]
		c := m.counter(e, l)
		lr.Used = c.used(e, l, now)
		lr.UsedAfterWaiting = lr.Used
		lr.ResetAfter = m.resetAfter(e, l, now)
		switch {
		case e.Action > quota.Reserve, spent:
		case e.Cost > l.Quota:
			lr.RetryAfter = quota.Never
		case denied || r.Verdict != quota.Admitted:
			lr.WaitsForHolds = m.waitsForHolds(e, r, i, now)
			lr.RetryAfter = max(m.timeToFit(e, l, lr.Admits, now), r.BlockLeft)
			lr.UsedAfterWaiting = c.usedAfter(e, l, now, lr.RetryAfter.Microseconds())
		}
		lr.Used, lr.UsedAfterWaiting = lr.Used+r.Held, lr.UsedAfterWaiting+r.Held
		lr.SaturateAt(e.Policy, l)
	}
}

// Reset deletes all state of the key in the policy, as Store.Reset does.
func (m *Model) Reset(policy *quota.Policy, key quota.Key, now time.Time) bool {
	names := slices.Clone(policy.StateNames())
	if policy.IsRequestable() {
		tag := stateName(key, "")
		for name := range m.states {
			if isRequested(name, policy, key) {
				names = append(names, strings.TrimPrefix(name, tag))
			}
		}
	}
	found := m.forget(names, key, now)
	records := slices.Clone(policy.EscalationNames())
	for _, name := range names {
		records = append(records, quota.LargestName(name))
	}
	m.forget(records, key, now)
	return found
}

// isRequested reports whether the name is the one of a state of a requested limit that refills.
func isRequested(name string, policy *quota.Policy, key quota.Key) bool {
	rest, found := strings.CutPrefix(name, stateName(key, policy.ID()+":"))
	if !found || strings.HasPrefix(rest, "charge!") { // the ID of a charge is any text
		return false
	}
	return (strings.Contains(rest, ":tb:") || strings.Contains(rest, ":gc:")) && strings.Contains(rest, "+requested")
}

// Block blocks the key, as Store.Block does.
func (m *Model) Block(policy *quota.Policy, key quota.Key, length time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now.UnixMicro())
	b := state[block](m, key, quota.BlockName(policy.ID()))
	b.by, b.end = "", expireIn(now.UnixMicro(), length)
}

// Unblock lifts the block of the key, as Store.Unblock does.
func (m *Model) Unblock(policy *quota.Policy, key quota.Key, now time.Time) bool {
	m.forget(policy.EscalationNames(), key, now)
	return m.forget([]string{quota.BlockName(policy.ID())}, key, now)
}

func (m *Model) forget(suffixes []string, key quota.Key, now time.Time) (found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now.UnixMicro())
	for _, suffix := range suffixes {
		name := stateName(key, suffix)
		found = found || m.states[name] != nil
		delete(m.states, name)
	}
	return found
}

// expire deletes the expired states.
func (m *Model) expire(now int64) {
	for name, s := range m.states {
		if !s.alive(now) {
			delete(m.states, name)
		}
	}
}

func inMicros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
