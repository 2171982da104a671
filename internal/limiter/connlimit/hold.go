// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connlimit

// littleBytes is what a connection may hold without waiting for the memory of closed ones.
const littleBytes = 256 << 10

// Hold adds bytes of memory that an unfinished request takes; a negative number releases them. It
// may close this connection or another one, and then waits until the memory is free if this
// connection has more than a little.
func (c *Conn) Hold(bytes int64) {
	if bytes == 0 || c.closed.Load() {
		return
	}
	own, all := c.bytes.Add(bytes), c.all.bytes.Add(bytes)
	switch {
	case c.removed.Load():
		c.release()
	case bytes < 0:
	case own > c.all.bounds.BytesEach:
		c.Close(ReasonMemory)
	case all > c.all.bounds.Bytes:
		c.all.closeLargest()
		if own > littleBytes {
			c.awaitRoom()
		}
	}
}

// closeLargest closes connections with the most unfinished bytes until the others are within the
// bound.
func (c *Set) closeLargest() {
	for {
		largest, total := c.largest()
		if largest == nil || total <= c.bounds.Bytes {
			return
		}
		largest.Close(ReasonMemory)
	}
}

// largest returns the connection with the most unfinished bytes, nil if none has any, and the bytes
// of all that were not closed.
func (c *Set) largest() (largest *Conn, total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := int64(0)
	for connection := range c.open {
		n := connection.bytes.Load()
		total += n
		if n > most {
			largest, most = connection, n
		}
	}
	return largest, total
}

// awaitRoom waits until closed connections have released enough.
func (c *Conn) awaitRoom() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	for c.all.bytes.Load() > c.all.bounds.Bytes && !c.closed.Load() {
		c.all.room.Wait()
	}
}

// release releases all that the connection holds.
func (c *Conn) release() { c.all.bytes.Add(-c.bytes.Swap(0)) }
