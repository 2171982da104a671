// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connlimit

// littleBytes is what a connection may hold without waiting for the memory of closed ones.
const littleBytes = 256 << 10

// Begin adds a request of the connection, which holds bytes of memory until its response has been sent. Later requests of a
// connection have higher numbers, unless they never overlap. Begin may close connections as Hold does.
func (c *Conn) Begin(request uint32, bytes int64) {
	c.change(bytes, func() { c.requests.begin(request, c.all.event) })
}

// Finish ends a request whose response has been sent, and releases its bytes.
func (c *Conn) Finish(request uint32, bytes int64) {
	c.change(-bytes, func() {
		c.requests.end(request, c.all.event)
		if c.class != &c.all.served {
			c.class.leave(c)
			c.all.served.enter(c, c.all.event)
		}
		c.class.connections.set(&c.connection, 1, c.all.event)
	})
}

// Abandon ends a request without a response, and releases its bytes.
func (c *Conn) Abandon(request uint32, bytes int64) {
	c.change(-bytes, func() { c.requests.end(request, c.all.event) })
}

// Hold adds bytes of memory that requests of the connection take; a negative number releases them. It may
// close this connection or other ones, and then waits until their memory is free if this connection has more
// than a little.
func (c *Conn) Hold(bytes int64) {
	if bytes != 0 {
		c.change(bytes, func() {})
	}
}

// change adds bytes and makes a further change under the lock, unless the connection was closed.
func (c *Conn) change(bytes int64, further func()) {
	taken, isLarge := c.changeLocked(bytes, further)
	taken.close()
	if isLarge && bytes > 0 {
		c.awaitMemory()
	}
}

// changeLocked returns the connections to close, and whether this one holds more than a little.
func (c *Conn) changeLocked(bytes int64, further func()) (taken closings, isLarge bool) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.closed {
		return nil, false
	}
	c.all.event++
	if c.bytes <= 0 && c.requests.older.open == 0 {
		c.requests.older.since = c.all.event // bytes without a request
	}
	c.bytes += bytes
	further()
	c.update()
	if c.bytes > c.all.bounds.BytesEach {
		c.leaveInto(&taken, ReasonMemory)
	}
	c.class.takeSurplus(&taken)
	return taken, c.bytes > littleBytes
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
