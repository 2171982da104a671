// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"strconv"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// prepared is a policy as the scripts take it.
type prepared struct {
	*quota.Policy

	algorithms uint
	keys       []string    // the parts after the hash tag, in the order of the script
	flags      int         // of an entry
	isLean     bool        // lean.lua can decide its checks
	args       []any       // the arguments after cost and flags
	dated      *datedCache // the arguments of a policy with calendars, see argumentsAt; else nil
}

// preparedOf returns the policy as the scripts take it. It is prepared once.
func preparedOf(policy *quota.Policy) *prepared {
	return policy.Memo(prepare).(*prepared) //nolint:forcetypeassert // only this function uses the memo
}

func prepare(policy *quota.Policy) any {
	p := &prepared{Policy: policy, keys: []string{quota.BlockName(policy.ID())}}
	p.prepareFlags()
	if p.flags&entryListed != 0 {
		p.keys = append(p.keys, listName(p.ID()))
	}
	if p.flags&entryHolds != 0 {
		p.keys = append(p.keys, p.HoldsName())
	}
	limits := p.Limits()
	p.isLean = p.flags&entryListed == 0
	for i := range limits {
		p.algorithms |= bitOf(limits[i].Algorithm)
		p.isLean = p.isLean && p.isLeanWith(&limits[i])
		p.addKeys(i)
	}
	if p.hasCalendar() {
		p.dated = &datedCache{}
		p.args = p.datedArgumentsAt(0).args
	} else {
		p.args = p.arguments(nil)
	}
	return p
}

// prepareFlags sets the flags that the policy has without its limits.
func (p *prepared) prepareFlags() {
	for _, f := range []struct {
		flag  int
		isSet bool
	}{
		{entryAttempts, p.CountsAttempts()},
		{entryShadow, p.IsShadow()},
		{entryBlocks, p.StartsBlocks()},
		{entryListed, p.OwnState() >= 0},
		{entryEnlarges, p.Enlarges()},
		{entryHolds, p.TakesReservations()},
		{entrySettles, p.SettlesHolds()},
	} {
		if f.isSet {
			p.flags |= f.flag
		}
	}
}

// isLeanWith reports whether lean.lua can decide the limit, after the limits before it. Of a SlidingLog it
// must not know what the log keeps for other limits.
func (p *prepared) isLeanWith(l *quota.Limit) bool {
	isPlain := bindingOf(l.Algorithm).lean != nil && l.Calendar == nil && l.Escalation == nil
	keep, _ := p.Kept()
	return isPlain && (l.Algorithm != quota.SlidingLog || !p.IsRequestable() && p.flags&entryLog == 0 && keep == l.Window)
}

// addKeys adds the keys of limit i. SlidingLog limits share one key.
func (p *prepared) addKeys(i int) {
	l, key := &p.Limits()[i], p.StateName(i)
	switch {
	case l.Algorithm == quota.Concurrency, l.Algorithm == quota.SlidingLog && p.flags&entryLog != 0:
	case l.Algorithm == quota.SlidingLog && p.IsRequestable():
		p.flags |= entryLog | entryLargest
		p.keys = append(p.keys, quota.LargestName(key), key)
	case l.Algorithm == quota.SlidingLog:
		p.flags |= entryLog
		p.keys = append(p.keys, key)
	default:
		p.keys = append(p.keys, key)
	}
	if escalation := p.EscalationName(i); escalation != "" {
		p.keys = append(p.keys, escalation)
	}
}

// arguments returns the arguments after cost and flags. ofCalendar returns the further
// arguments of a limit with a calendar.
func (p *prepared) arguments(ofCalendar func(*quota.Limit) []any) []any {
	var args []any
	number := func(n int64) { args = append(args, strconv.FormatInt(n, 10)) }
	if p.flags&entryLog != 0 {
		keep, units := p.Kept()
		number(keep.Milliseconds())
		number(units)
	}
	if p.flags&entryListed != 0 {
		number(int64(p.OwnState()) + 1)
	}
	if p.flags&entryHolds != 0 {
		number(p.KeptAfterEnd() / 1000)
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

// blockArguments returns the arguments about the blocks of the limit: its length and name; or the
// number of lengths below 0, the name, the lengths, and how long they are remembered.
func blockArguments(l *quota.Limit) []any {
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
