// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// command is an EVALSHA of a program, whose arguments follow the keys.
type command struct {
	program  program
	args     []any
	bindings uint             // selects the program
	now      func() time.Time // the clock of this process
}

// decideCommand returns the command for the calls of a batch.
func (s *Store) decideCommand(batch []*pending) command {
	runs := runsOf(batch)
	c := s.newCommand(decidePrograms, runs...)
	c.args = append(c.args, len(runs))
	for _, r := range runs {
		c.addRun(r)
	}
	return c
}

// newCommand returns a command for the program of the bindings of the runs, with the keys of their entries
// and no arguments yet.
func (s *Store) newCommand(from *programs, runs ...run) command {
	c := command{now: s.now}
	capacity := 8
	for _, r := range runs {
		entries := r.calls[0].call.Entries
		for i := range entries {
			p := preparedOf(entries[i].Policy)
			c.bindings |= p.bindings
			capacity += len(r.calls)*(len(p.keys)+2) + len(p.args) + 4
		}
		capacity += 4
	}
	c.program = from.of(c.bindings)
	c.args = make([]any, 3, capacity)
	c.args[0], c.args[1] = "EVALSHA", c.program.sha
	for _, r := range runs {
		calls := r.calls
		if r.sameKeys {
			calls = calls[:1]
		}
		for _, p := range calls {
			names := s.keyNames(p)
			for i := range names {
				c.args = append(c.args, &names[i]) // the client takes pointers, which need no memory
			}
		}
	}
	if s.isCluster {
		c.args = append(c.args, s.key(runs[0].calls[0].call.Entries[0].Key, absentKey))
	}
	c.args[2] = len(c.args) - 3
	c.args[3] = *c.args[3].(*string) //nolint:forcetypeassert // set above; the client routes by it
	return c
}

// newFileCommand returns the command of a program of one file, see program.go, with these keys and arguments.
func newFileCommand(p program, keys []string, args ...any) command {
	c := command{program: p, args: []any{"EVALSHA", p.sha, len(keys)}}
	for _, key := range keys {
		c.args = append(c.args, key)
	}
	c.args = append(c.args, args...)
	return c
}

// keyNames returns the Redis keys of the call, in the memory of p. They share one string.
func (s *Store) keyNames(p *pending) []string {
	text, ends, names := p.keyText[:0], p.keyEnds[:0], p.keyNames[:0]
	add := func(key store.Key, suffix string) {
		text = s.appendKey(text, key, suffix)
		ends = append(ends, len(text))
	}
	for i := range p.call.Entries {
		e := &p.call.Entries[i]
		for _, suffix := range suffixesOf(e) {
			add(e.Key, suffix)
		}
		if e.Remembers() {
			add(e.Key, store.ChargeName(e.Policy.ID(), e.ID))
		}
	}
	all, start := string(text), 0
	for _, end := range ends {
		names, start = append(names, all[start:end]), end
	}
	p.keyText, p.keyEnds, p.keyNames = text, ends, names
	return names
}

// keysOf returns the number of Redis keys of the call.
func keysOf(c *store.Call) int {
	n := 0
	for i := range c.Entries {
		n += len(suffixesOf(&c.Entries[i]))
		if c.Entries[i].Remembers() {
			n++
		}
	}
	return n
}

// suffixesOf returns the suffixes of the Redis keys of the entry. A commit that starts no block needs no block: it is
// never blocked, and the key is known by its hold. But if its policy keeps no holds, the block shows whether another
// plan took some.
func suffixesOf(e *store.Entry) []string {
	p := preparedOf(e.Policy)
	if e.Action == store.Commit && !p.BlocksOnCommit() && p.KeepsHolds() {
		return p.keys[1:]
	}
	return p.keys
}

// addRun appends the arguments of a run, see batch.lua.
func (c *command) addRun(r run) {
	first := r.calls[0]
	draws := c.bindings&suppressedBit != 0
	calls, flags, callArgs := r.calls, r.flags(), countCallArguments(first.call)
	switch {
	case draws:
		flags |= runDraws
		callArgs++
	case r.haveSameCosts():
		flags |= runSameArgs
		calls = calls[:1]
	}
	c.args = append(c.args, len(r.calls), keysOf(first.call), callArgs, flags) // at the places atCalls to atRunFlags
	c.addEntries(first.call.Entries, first.mode.precheck)
	for _, p := range calls {
		if draws {
			c.args = append(c.args, &p.call.Draw)
		}
		for i := range p.call.Entries {
			c.addCallArguments(&p.call.Entries[i])
		}
	}
}

// countCallArguments returns the number of call arguments: the arguments of the entries that the calls of a run
// do not share.
func countCallArguments(c *store.Call) int {
	n := len(c.Entries)
	for i := range c.Entries {
		if namesHold(&c.Entries[i]) {
			n++
		}
	}
	return n
}

// namesHold reports whether the ID of the entry may be the ID of a hold. The script then needs it beside the cost.
func namesHold(e *store.Entry) bool { return e.Action != store.Check && e.Action != store.Charge }

// addCallArguments appends the call arguments of an entry: its cost and, if it names a hold, its ID.
func (c *command) addCallArguments(e *store.Entry) {
	c.args = append(c.args, &e.Cost)
	if namesHold(e) {
		c.args = append(c.args, e.ID)
	}
}

// addEntries appends what the entries of all calls of a run have in common.
func (c *command) addEntries(entries []store.Entry, precheck bool) {
	c.args = append(c.args, len(entries))
	for i := range entries {
		e, p := &entries[i], preparedOf(entries[i].Policy)
		flags := p.flags
		if e.OnlyKnown {
			flags |= entryOnlyKnown
		}
		if e.Peek {
			flags |= entryPeek
		}
		if precheck {
			flags |= entryPrecheck
		}
		if e.Remembers() {
			flags |= entryRemembers
		}
		flags |= int(e.Action) << entryActionBits
		c.args = append(c.args, flags)
		if holdsAnew(e) {
			c.args = append(c.args, e.TTL.Milliseconds())
		}
		if e.Action == store.TakeSlice {
			c.args = append(c.args, p.MostSliced())
		}
		c.args = append(c.args, p.argumentsAt(c.now)...)
	}
}

// holdsAnew reports whether the entry holds for its TTL from now.
func holdsAnew(e *store.Entry) bool {
	return e.Action == store.Reserve || e.Action == store.Renew || e.Action == store.TakeSlice
}
