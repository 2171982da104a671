// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"container/list"
	"net/netip"
)

// port has the connections of one port that were not closed.
type port struct{ open, unserved ranking }

// ranking ranks client addresses by how many connections they have. All methods take constant time, since an
// attacker can open thousands of connections a second.
type ranking struct {
	connections int
	sources     map[netip.Addr]*source
	// byCount has the sources by their number of connections, the earliest with that number first.
	byCount []*list.List
}

// source is a client address.
type source struct {
	connections list.List // of *Conn, the oldest first
	place       *list.Element
}

// add adds the connection, and returns its place.
func (r *ranking) add(c *Conn) *list.Element {
	s := r.sources[c.source]
	if s == nil {
		s = &source{}
		if r.sources == nil {
			r.sources = map[netip.Addr]*source{}
		}
		r.sources[c.source] = s
	}
	r.connections++
	r.leave(s)
	place := s.connections.PushBack(c)
	r.enter(s)
	return place
}

// remove removes the connection with that place.
func (r *ranking) remove(c *Conn, place *list.Element) {
	s := r.sources[c.source]
	r.connections--
	r.leave(s)
	s.connections.Remove(place)
	if s.connections.Len() == 0 {
		delete(r.sources, c.source)
		return
	}
	r.enter(s)
}

// leave takes the source out of byCount.
func (r *ranking) leave(s *source) {
	if s.place != nil {
		r.byCount[s.connections.Len()].Remove(s.place)
		s.place = nil
	}
}

// enter puts the source into byCount.
func (r *ranking) enter(s *source) {
	n := s.connections.Len()
	for len(r.byCount) <= n {
		r.byCount = append(r.byCount, list.New())
	}
	s.place = r.byCount[n].PushBack(s)
}

// first returns the oldest connection of the source with the most, or nil.
func (r *ranking) first() *Conn {
	for len(r.byCount) > 0 {
		most := r.byCount[len(r.byCount)-1]
		if s := most.Front(); s != nil {
			return s.Value.(*source).connections.Front().Value.(*Conn)
		}
		r.byCount = r.byCount[:len(r.byCount)-1]
	}
	return nil
}

// surplus returns the connection to close if too many are open, else nil. If too many have no finished
// request, it is one of those. It is the oldest of the address with the most.
func (p *port) surplus(b *Bounds) *Conn {
	switch {
	case p.unserved.connections > b.Unserved:
		return p.unserved.first()
	case p.open.connections > b.Open:
		return p.open.first()
	}
	return nil
}
