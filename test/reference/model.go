// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/steps"
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
	used(e *store.Entry, l *store.Limit, now int64) int64
	usedAfter(e *store.Entry, l *store.Limit, now, wait int64) int64
	timeToFit(e *store.Entry, l *store.Limit, now int64) int64
	resetAfter(e *store.Entry, l *store.Limit, now int64) int64
	spend(e *store.Entry, l *store.Limit, now int64, passes bool)
}

// settler is a counter that can settle holds, see hold.go. at is when the hold ended.
type settler interface {
	settle(e *store.Entry, l *store.Limit, units, at, now int64)
	endSettling(e *store.Entry, l *store.Limit, now int64)
	keep(e *store.Entry, l *store.Limit, now int64)
	afterLast(l *store.Limit, held, last, wait int64) int64
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
func (m *Model) Evaluate(call *store.Call, now time.Time) *store.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := now.UnixMicro()
	m.expire(at)
	other := store.NewSubstitution(call)
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
func (m *Model) undecided(call *store.Call, now int64) (indexes []int) {
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
func (m *Model) known(e *store.Entry, now int64) bool {
	if m.holds(e).set.Len() > 0 {
		return true
	}
	for _, suffix := range append([]string{store.BlockName(e.Policy.ID())}, stateNames(e.Policy)...) {
		if s := m.states[stateName(e.Key, suffix)]; s != nil && s.alive(now) {
			return true
		}
	}
	return false
}

// stateNames returns the names of the states in which the limits of the policy count.
func stateNames(p *store.Policy) []string {
	names := make([]string, len(p.Limits()))
	for i := range names {
		names[i] = p.StateName(i)
	}
	return names
}

// full reports whether the requested limit has no state while 16 others have.
func (m *Model) full(e *store.Entry, now int64) bool {
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

func (m *Model) decide(call *store.Call, at int64) *store.Reply {
	// The reply has memory of its own: tests compare it with a later reply to the same call.
	reply := &store.Reply{Entries: make([]store.EntryReply, len(call.Entries))}
	entries := make([]steps.Entry, len(call.Entries))
	for i := range call.Entries {
		e := &entry{Entry: &call.Entries[i], model: m, now: at}
		e.begin()
		isKnown := m.known(e.Entry, at)
		reply.Entries[i].Limits = make([]store.LimitReply, len(e.Policy.Limits()))
		e.read()
		e.settle(&reply.Entries[i])
		entries[i] = steps.Entry{Entry: e.Entry, States: e, Holds: m.holds(e.Entry).set, Now: at, IsKnown: isKnown}
	}
	steps.Decide(call, reply, entries)
	return reply
}

// Reset deletes all state of the key in the policy, as Store.Reset does.
func (m *Model) Reset(policy *store.Policy, key store.Key, now time.Time) bool {
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
		records = append(records, store.LargestName(name))
	}
	m.forget(records, key, now)
	return found
}

// isRequested reports whether the name is the one of a state of a requested limit that refills.
func isRequested(name string, policy *store.Policy, key store.Key) bool {
	rest, found := strings.CutPrefix(name, stateName(key, policy.ID()+":"))
	if !found || strings.HasPrefix(rest, "charge!") { // the ID of a charge is any text
		return false
	}
	return (strings.Contains(rest, ":tb:") || strings.Contains(rest, ":gc:")) && strings.Contains(rest, "+requested")
}

// Block blocks the key, as Store.Block does.
func (m *Model) Block(policy *store.Policy, key store.Key, length time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now.UnixMicro())
	b := state[block](m, key, store.BlockName(policy.ID()))
	b.by, b.end = "", expireIn(now.UnixMicro(), length)
}

// Unblock lifts the block of the key, as Store.Unblock does.
func (m *Model) Unblock(policy *store.Policy, key store.Key, now time.Time) bool {
	m.forget(policy.EscalationNames(), key, now)
	return m.forget([]string{store.BlockName(policy.ID())}, key, now)
}

func (m *Model) forget(suffixes []string, key store.Key, now time.Time) (found bool) {
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
