// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"strconv"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// prepared is what commands need of a policy, whatever the call.
type prepared struct {
	*store.Policy

	bindings    uint        // the bits of its bindings, see lua.go
	keys        []string    // the parts after the hash tag, in the order of the script
	flags       int         // the flags of an entry that the policy sets
	hasFastPath bool        // fast.lua can decide its checks
	args        []any       // the arguments after the flags and the TTL
	dated       *datedCache // the arguments of a policy with calendars, see argumentsAt; else nil
}

// preparedOf returns the prepared policy. A policy is prepared once.
func preparedOf(policy *store.Policy) *prepared {
	return policy.Memo(prepare).(*prepared) //nolint:forcetypeassert // only this function uses the memo
}

func prepare(policy *store.Policy) any {
	p := &prepared{Policy: policy, keys: []string{store.BlockName(policy.ID())}}
	p.prepareFlags()
	if p.flags&entryListed != 0 {
		p.keys = append(p.keys, listName(p.ID()))
	}
	if p.flags&entryHolds != 0 {
		p.bindings |= holdsBit
		p.keys = append(p.keys, p.HoldsName())
	}
	limits := p.Limits()
	p.hasFastPath = p.flags&entryListed == 0
	for i := range limits {
		p.bindings |= bitOf(limits[i].Algorithm)
		p.hasFastPath = p.hasFastPath && p.hasFastPathWith(&limits[i])
		p.addKeys(i)
	}
	if p.hasCalendar() {
		p.dated = &datedCache{}
		p.args = p.datedArgumentsAt(0).args // only their number is used
	} else {
		p.args = p.arguments(nil)
	}
	return p
}

// prepareFlags sets the flags that do not depend on the algorithms; addKeys sets the others.
func (p *prepared) prepareFlags() {
	for _, f := range []struct {
		flag  int
		isSet bool
	}{
		{entryAttempts, p.CountsAttempts()},
		{entryShadow, p.IsShadow()},
		{entryBlocks, p.StartsBlocks() || p.BlocksOnCommit()},
		{entryOnCommit, p.BlocksOnCommit()},
		{entryListed, p.OwnState() >= 0},
		{entryEnlarges, p.Enlarges()},
		{entryHolds, p.KeepsHolds()},
		{entryRequested, !p.SettlesHolds()},
	} {
		if f.isSet {
			p.flags |= f.flag
		}
	}
}

// hasFastPathWith reports whether fast.lua can decide the limit. The keys of the limits before it have been added. fast.lua
// decides a SlidingLog only if the log serves no other limit.
func (p *prepared) hasFastPathWith(l *store.Limit) bool {
	isPlain := bindingOf(l.Algorithm).fast != nil && l.Calendar == nil && l.Escalation == nil
	keep, _ := p.Kept()
	return isPlain && (l.Algorithm != store.SlidingLog || !p.IsRequestable() && p.flags&entryLog == 0 && keep == l.Window)
}

// addKeys adds the keys of limit i. All SlidingLog limits share one key; Concurrency has none.
func (p *prepared) addKeys(i int) {
	l, key := &p.Limits()[i], p.StateName(i)
	switch {
	case l.Algorithm == store.Concurrency, l.Algorithm == store.SlidingLog && p.flags&entryLog != 0:
	case l.Algorithm == store.SlidingLog && p.IsRequestable():
		p.flags |= entryLog | entryLargest
		p.keys = append(p.keys, store.LargestName(key), key)
	case l.Algorithm == store.SlidingLog:
		p.flags |= entryLog
		p.keys = append(p.keys, key)
	default:
		p.keys = append(p.keys, key)
	}
	if escalation := p.EscalationName(i); escalation != "" {
		p.keys = append(p.keys, escalation)
	}
}

// arguments returns the arguments after the flags and the TTL, see entry.lua. ofCalendar returns the further
// arguments of a limit with a calendar.
func (p *prepared) arguments(ofCalendar func(*store.Limit) []any) []any {
	var args []any
	number := func(n int64) { args = append(args, strconv.FormatInt(n, 10)) }
	if p.flags&entryLog != 0 {
		keep, units := p.Kept()
		number(keep.Milliseconds())
		number(units)
	}
	if p.flags&entryListed != 0 {
		number(int64(p.OwnState()) + 1) // Lua counts from 1
	}
	if p.flags&entryHolds != 0 {
		number(p.KeptAfterEnd() / 1000) // in milliseconds
		number(p.MaxOpen())
	}
	limits := p.Limits()
	number(int64(len(limits)))
	for i := range limits {
		l := &limits[i]
		args = append(args, string(l.Algorithm))
		number(l.Quota)
		number(l.Window.Milliseconds())
		if p.flags&entryBlocks != 0 {
			args = append(args, blockArguments(l)...)
		}
		if more := bindingOf(l.Algorithm).arguments; more != nil {
			for _, n := range more(l) {
				number(n)
			}
		}
		if l.Calendar != nil {
			args = append(args, ofCalendar(l)...)
		}
	}
	return args
}

// blockArguments returns the arguments about the blocks of the limit: their length and the name of the limit. With an
// escalation: the negative number of lengths, the name, the lengths, and how long the limit remembers a block.
func blockArguments(l *store.Limit) []any {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if l.Escalation == nil {
		return []any{number(l.Block.Milliseconds()), l.Name}
	}
	args := []any{number(-int64(len(l.Escalation.Lengths))), l.Name}
	for _, length := range l.Escalation.Lengths {
		args = append(args, number(length.Milliseconds()))
	}
	return append(args, number(l.Escalation.Window.Milliseconds()))
}
