// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connlimit

// littleBytes is what a connection may hold without waiting for the memory of closed ones.
const littleBytes = 256 << 10

// keptRequests is for how many requests a Change keeps room.
const keptRequests = 64

// Change is what a connection holds more or less: the numbers of its requests that begin and end, and bytes of memory.
type Change struct {
	// Bytes are added to those that the requests take; a negative number releases them.
	Bytes int64
	// Begun are requests whose response has not been sent. Later requests of a connection have higher numbers, unless they
	// never overlap.
	Begun []uint32
	// Finished are requests whose response has been sent, Abandoned those that ended without one.
	Finished, Abandoned []uint32
}

// Reset empties the change, which can be used again. It keeps little memory.
func (ch *Change) Reset() {
	*ch = Change{Begun: emptied(ch.Begun), Finished: emptied(ch.Finished), Abandoned: emptied(ch.Abandoned)}
}

func emptied(requests []uint32) []uint32 {
	if cap(requests) > keptRequests {
		return nil
	}
	return requests[:0]
}

func (ch *Change) isEmpty() bool {
	return ch.Bytes == 0 && len(ch.Begun)+len(ch.Finished)+len(ch.Abandoned) == 0
}

// Begin adds a request, which holds bytes of memory until its response has been sent. See Apply.
func (c *Conn) Begin(request uint32, bytes int64) {
	c.Apply(&Change{Bytes: bytes, Begun: []uint32{request}})
}

// Finish ends a request whose response has been sent, and releases its bytes.
func (c *Conn) Finish(request uint32, bytes int64) {
	c.Apply(&Change{Bytes: -bytes, Finished: []uint32{request}})
}

// Hold adds bytes of memory that requests of the connection take; a negative number releases them. See Apply.
func (c *Conn) Hold(bytes int64) { c.Apply(&Change{Bytes: bytes}) }

// Apply makes the change, unless the connection was closed. It may close this connection or other ones, and then waits
// until their memory is free if this connection has more than a little.
func (c *Conn) Apply(change *Change) {
	if change.isEmpty() {
		return
	}
	taken, isLarge := c.apply(change)
	taken.close()
	if isLarge && change.Bytes > 0 {
		c.awaitMemory()
	}
}

// apply returns the connections to close, and whether this one holds more than a little.
func (c *Conn) apply(change *Change) (taken closings, isLarge bool) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.closed {
		return nil, false
	}
	c.all.event++
	if c.bytes <= 0 && c.requests.older.open == 0 {
		c.requests.older.since = c.all.event // bytes without a request
	}
	c.bytes += change.Bytes
	c.changeRequests(change)
	c.update()
	if c.bytes > c.all.bounds.BytesEach {
		c.leaveInto(&taken, ReasonMemory)
	}
	c.class.takeSurplus(&taken)
	return taken, c.bytes > littleBytes
}

// changeRequests begins and ends requests. The caller holds the lock.
func (c *Conn) changeRequests(change *Change) {
	event := c.all.event
	for _, request := range change.Begun {
		c.requests.begin(request, event)
	}
	for _, request := range change.Abandoned {
		c.requests.end(request, event)
	}
	if len(change.Finished) == 0 {
		return
	}
	for _, request := range change.Finished {
		c.requests.end(request, event)
	}
	if c.class != &c.all.served {
		c.class.leave(c)
		c.all.served.enter(c, event)
	}
	c.class.connections.set(&c.connection, 1, event)
}

// awaitMemory waits until closed connections have released enough, or this one is closed.
func (c *Conn) awaitMemory() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	for !c.closed && c.class.bytes.total+c.class.leaving > c.class.bytes.bound {
		c.all.freed.Wait()
	}
}

// update counts what the connection holds now.
func (c *Conn) update() {
	amount, since := max(0, c.bytes), c.requests.older.since
	switch {
	case c.class == &c.all.unserved:
		amount, since = amount+c.all.bounds.UnservedBytes, c.connection.since
	case amount == 0:
		since = never
	}
	c.class.bytes.set(&c.memory, amount, since)
}
