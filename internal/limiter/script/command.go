// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

// command is an EVALSHA; run sets the first two arguments.
type command struct {
	args       []any
	algorithms uint
}

// newCommand returns a command with the keys of the calls and no arguments yet.
func (s *Store) newCommand(calls ...*Call) command {
	c := command{}
	capacity := 8
	for _, call := range calls {
		for i := range call.Entries {
			p := call.Entries[i].Policy
			c.algorithms |= p.algorithms
			capacity += len(p.keys) + len(p.args) + 4
		}
	}
	c.args = make([]any, 3, capacity)
	for _, call := range calls {
		names := s.keyNames(call)
		for i := range names {
			c.args = append(c.args, &names[i]) // the client takes pointers, which need no memory
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
		for _, suffix := range e.Policy.keys {
			text = s.appendKey(text, e.Key, suffix)
		}
	}
	rest := string(text)
	for i := range call.Entries {
		e := &call.Entries[i]
		for _, suffix := range e.Policy.keys {
			n := s.keyLength(e.Key, suffix)
			names, rest = append(names, rest[:n]), rest[n:]
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

// Flags of a run, as decide.lua reads them.
const (
	runDenied = 1 << iota
	runReceipts
	runDraws
)

// decideCommand returns the command for the calls of a batch, whose successive calls with the
// same policies are one run.
func (s *Store) decideCommand(batch []*pending) command {
	calls := make([]*Call, len(batch))
	for i, p := range batch {
		calls[i] = p.call
	}
	c := s.newCommand(calls...)
	runs := len(c.args)
	c.args = append(c.args, 0)
	n := 0
	for len(batch) > 0 {
		length := 1
		for length < len(batch) && batch[0].shareRun(batch[length]) {
			length++
		}
		c.addRun(batch[:length])
		batch = batch[length:]
		n++
	}
	c.args[runs] = n
	return c
}

// shareRun reports whether the two calls can be part of one run.
func (p *pending) shareRun(other *pending) bool {
	if p.receipts != other.receipts || p.call.Denied != other.call.Denied || len(p.call.Entries) != len(other.call.Entries) {
		return false
	}
	for i := range p.call.Entries {
		a, b := &p.call.Entries[i], &other.call.Entries[i]
		if a.Policy != b.Policy || a.Peek != b.Peek || a.dryRun != b.dryRun {
			return false
		}
	}
	return true
}

func (c *command) addRun(run []*pending) {
	first := run[0]
	draws := c.algorithms&Suppressed.bit() != 0
	flags, own := 0, len(first.call.Entries)
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
	c.args = append(c.args, len(run), first.call.keys(), own, flags)
	c.addEntries(first.call.Entries)
	for _, p := range run {
		if draws {
			c.args = append(c.args, &p.call.Draw)
		}
		for i := range p.call.Entries {
			c.args = append(c.args, &p.call.Entries[i].Cost)
		}
	}
}

// addEntries appends what the entries of all calls of a run have in common.
func (c *command) addEntries(entries []Entry) {
	c.args = append(c.args, len(entries))
	for i := range entries {
		e := &entries[i]
		flags := e.Policy.flags
		if e.Peek {
			flags |= flagPeek
		}
		if e.dryRun {
			flags |= flagDryRun
		}
		c.args = append(append(c.args, flags), e.Policy.args...)
	}
}
