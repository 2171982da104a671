// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"container/heap"
	"net/netip"
	"slices"
)

// class has the connections that were not closed, either with or without a finished request.
type class struct {
	connections, bytes account
	// leaving are the bytes of closed connections whose memory is not yet free.
	leaving int64
}

func newClass(b ClassBounds) class {
	return class{connections: newAccount(b.Connections), bytes: newAccount(b.Bytes)}
}

// enter adds a connection whose memory is not yet counted.
func (cl *class) enter(c *Conn, event uint64) {
	c.class = cl
	cl.connections.add(c, &c.connection, event)
	cl.connections.set(&c.connection, 1, event)
	cl.bytes.add(c, &c.memory, event)
}

// leave removes a connection.
func (cl *class) leave(c *Conn) {
	cl.connections.remove(&c.connection)
	cl.bytes.remove(&c.memory)
}

// takeSurplus takes the connections that are to be closed because the class holds too much. The caller holds the lock.
func (cl *class) takeSurplus(taken *closings) {
	for cl.connections.total > cl.connections.bound {
		cl.connections.first().leaveInto(taken, ReasonConnections)
	}
	for cl.bytes.total > cl.bytes.bound {
		cl.bytes.first().leaveInto(taken, ReasonMemory)
	}
}

// account counts one resource that the connections of a class hold, by client address. It finds the connection to
// close: of the address with the most, the one that waits longest.
type account struct {
	bound, total int64
	clients      map[netip.Addr]*client
	order        queue[*client] // the client with the most is first
}

// client is a client address.
type client struct {
	amount   int64
	holdings queue[*holding] // the one that waits longest is first; never empty
	place    int
}

// holding is what one connection holds.
type holding struct {
	conn   *Conn
	amount int64
	since  uint64 // the event since which the connection waits
	client *client
	place  int
}

func newAccount(bound int64) account { return account{bound: bound, clients: map[netip.Addr]*client{}} }

// add adds a connection that holds nothing yet.
func (a *account) add(c *Conn, h *holding, event uint64) {
	owner := a.clients[c.source]
	if owner == nil {
		owner = &client{}
		a.clients[c.source] = owner
		defer heap.Push(&a.order, owner) // it needs a holding
	}
	*h = holding{conn: c, since: event, client: owner}
	heap.Push(&owner.holdings, h)
}

// set changes what a connection holds, and since when it waits.
func (a *account) set(h *holding, amount int64, since uint64) {
	change := amount - h.amount
	a.total += change
	h.client.amount += change
	h.amount, h.since = amount, since
	h.client.holdings.fix(h.place)
	a.order.fix(h.client.place)
}

// remove removes a connection. It leaves the amount in h.
func (a *account) remove(h *holding) {
	a.total -= h.amount
	h.client.amount -= h.amount
	if len(h.client.holdings.items) == 1 {
		heap.Remove(&a.order, h.client.place)
		delete(a.clients, h.conn.source)
		return
	}
	heap.Remove(&h.client.holdings, h.place)
	a.order.fix(h.client.place)
}

// first returns the connection to close. The account is not empty.
func (a *account) first() *Conn { return a.order.items[0].first().conn }

func (c *client) first() *holding { return c.holdings.items[0] }

// before orders clients with the same amount by their oldest connection.
func (c *client) before(other *client) bool {
	if c.amount != other.amount {
		return c.amount > other.amount
	}
	return c.first().before(other.first())
}

func (h *holding) before(other *holding) bool {
	h.conn.all.steps++
	return h.since < other.since
}

func (c *client) at() *int  { return &c.place }
func (h *holding) at() *int { return &h.place }

// ranked is an item of a queue of type T.
type ranked[T any] interface {
	// before reports whether the item comes before the other one.
	before(other T) bool
	// at returns the place of the item in its queue.
	at() *int
}

// queue is a heap whose items know their places. It implements heap.Interface.
type queue[T ranked[T]] struct{ items []T }

// fix restores the order after the item at the place has changed.
func (q *queue[T]) fix(place int) {
	if len(q.items) > 1 {
		heap.Fix(q, place)
	}
}

func (q *queue[T]) Len() int           { return len(q.items) }
func (q *queue[T]) Less(i, j int) bool { return q.items[i].before(q.items[j]) }

func (q *queue[T]) Swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	*q.items[i].at(), *q.items[j].at() = i, j
}

func (q *queue[T]) Push(x any) {
	*x.(T).at() = len(q.items)
	q.items = append(q.items, x.(T))
}

func (q *queue[T]) Pop() any {
	last := len(q.items) - 1
	popped := q.items[last]
	q.items = slices.Delete(q.items, last, last+1)
	return popped
}
