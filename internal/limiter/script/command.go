// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "time"

// command is an EVALSHA of a program.
type command struct {
	program    program
	args       []any
	algorithms uint
	now        func() time.Time // the clock of this process
}

// newCommand returns a command for one of the programs, by the algorithms of the runs, with the
// keys of their entries and no arguments yet.
func (s *Store) newCommand(scripts *programs, runs ...run) command {
	c := command{now: s.now}
	capacity := 8
	for _, r := range runs {
		entries := r.calls[0].call.Entries
		for i := range entries {
			p := entries[i].Policy
			c.algorithms |= p.algorithms
			if p.keepsHolds() || entries[i].Action != Check {
				c.algorithms |= holdsBit
			}
			capacity += len(r.calls)*(len(p.keys)+2) + len(p.args) + 4
		}
		capacity += 4
	}
	c.program = scripts[c.algorithms]()
	c.args = make([]any, 3, capacity)
	c.args[0], c.args[1] = "EVALSHA", c.program.sha
	for _, r := range runs {
		calls := r.calls
		if r.sameKeys {
			calls = calls[:1]
		}
		for _, p := range calls {
			names := s.keyNames(p.call)
			for i := range names {
				c.args = append(c.args, &names[i]) // the client takes pointers, which need no memory
			}
		}
	}
	c.args[2] = len(c.args) - 3
	c.args[3] = *c.args[3].(*string) //nolint:forcetypeassert // set above; the client routes by it
	return c
}

// keyNames returns the Redis keys of the call, in the memory of the call. They share one string.
func (s *Store) keyNames(call *Call) []string {
	text, names := call.keyText[:0], call.keyNames[:0]
	for i := range call.Entries {
		e := &call.Entries[i]
		for _, suffix := range e.suffixes() {
			text = s.appendKey(text, e.Key, suffix)
		}
		if e.Remembers() {
			text = s.appendKey(text, e.Key, chargeKey(e.Policy.id, e.ID))
		}
	}
	rest := string(text)
	next := func(key Key, suffix string) {
		n := s.keyLength(key, suffix)
		names, rest = append(names, rest[:n]), rest[n:]
	}
	for i := range call.Entries {
		e := &call.Entries[i]
		for _, suffix := range e.suffixes() {
			next(e.Key, suffix)
		}
		if e.Remembers() {
			next(e.Key, chargeKey(e.Policy.id, e.ID))
		}
	}
	call.keyText, call.keyNames = text, names
	return names
}

// key returns the Redis key with the suffix for a key of a policy.
func (s *Store) key(key Key, suffix string) string { return string(s.appendKey(nil, key, suffix)) }

func (s *Store) appendKey(text []byte, key Key, suffix string) []byte {
	text = append(append(text, s.prefix...), '{')
	text = append(append(text, key...), "}:"...)
	return append(text, suffix...)
}

func (s *Store) keyLength(key Key, suffix string) int {
	return len(s.prefix) + len("{") + len(key) + len("}:") + len(suffix)
}

// Flags of a run, as batch.lua lists them.
const (
	runDenied = 1 << iota
	runReceipts
	runDraws
	runSameKeys
	runRepeated
	runLean
	runSameOwn
)

// decideCommand returns the command for the calls of a batch.
func (s *Store) decideCommand(batch []*pending) command {
	runs := runsOf(batch)
	c := s.newCommand(decideScripts, runs...)
	c.args = append(c.args, len(runs))
	for _, r := range runs {
		c.addRun(r)
	}
	return c
}

func (c *command) addRun(r run) {
	first := r.calls[0]
	draws := c.algorithms&Suppressed.bit() != 0
	flags, own := 0, first.call.ownArguments()
	if first.call.Denied {
		flags |= runDenied
	}
	if first.receipts {
		flags |= runReceipts
	}
	if draws {
		flags |= runDraws
		own++
	}
	if r.sameKeys {
		flags |= runSameKeys
	}
	if first.call.repeated {
		flags |= runRepeated
	}
	if r.isLean() {
		flags |= runLean
	}
	calls := r.calls
	if !draws && r.haveSameCosts() {
		flags |= runSameOwn
		calls = calls[:1]
	}
	c.args = append(c.args, len(r.calls), first.call.keys(), own, flags)
	c.addEntries(first.call.Entries)
	for _, p := range calls {
		if draws {
			c.args = append(c.args, &p.call.Draw)
		}
		for i := range p.call.Entries {
			c.addOwn(&p.call.Entries[i])
		}
	}
}

// ownArguments returns the number of arguments that the entries of the call do not share with those
// of other calls of a run.
func (c *Call) ownArguments() int {
	n := len(c.Entries)
	for i := range c.Entries {
		switch c.Entries[i].Action {
		case Reserve, Renew, Commit, CommitOrCharge:
			n++
		case Check, Charge:
		}
	}
	return n
}

// addOwn appends the own arguments of an entry.
func (c *command) addOwn(e *Entry) {
	c.args = append(c.args, &e.Cost)
	switch e.Action {
	case Reserve, Renew, Commit, CommitOrCharge:
		c.args = append(c.args, e.ID)
	case Check, Charge:
	}
}

// addEntries appends what the entries of all calls of a run have in common.
func (c *command) addEntries(entries []Entry) {
	c.args = append(c.args, len(entries))
	for i := range entries {
		e := &entries[i]
		flags := e.Policy.flags
		if e.OnlyKnown {
			flags |= flagOnlyKnown
		}
		if e.Peek {
			flags |= flagPeek
		}
		if e.dryRun {
			flags |= flagDryRun
		}
		if e.Remembers() {
			flags |= flagRemembers
		}
		flags += int(e.Action) * actionUnit
		c.args = append(c.args, flags)
		if e.holdsAnew() {
			c.args = append(c.args, e.TTL.Milliseconds())
		}
		c.args = append(c.args, e.Policy.argumentsAt(c.now)...)
	}
}
