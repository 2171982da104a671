// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package grpcserver

import (
	"errors"
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc/mem"
)

// readyConn is a boundedConn that takes a buffer only when bytes have arrived, so that an idle
// connection holds none. gRPC does that by itself only for connections that nothing wraps.
type readyConn struct {
	*boundedConn
	raw syscall.RawConn
	// of the read that is under way: gRPC reads in one goroutine
	reading readyRead
	read    func(fd uintptr) (done bool) // reading.try
}

func withoutPinnedBuffer(c *boundedConn, tcp *net.TCPConn) net.Conn {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	r := &readyConn{boundedConn: c, raw: raw}
	r.read = r.reading.try
	return r
}

// ReadOnReady implements the Reader of gRPC's transport. It returns a buffer of the pool and the
// number of bytes in it.
func (c *readyConn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	c.beginRead()
	r := &c.reading
	r.size, r.pool = size, pool
	err := c.raw.Read(c.read)
	buffer, n := r.buffer, r.n
	r.buffer = nil
	switch {
	case err != nil:
		return nil, 0, err
	case r.err != nil:
		return nil, 0, r.err
	case n == 0:
		pool.Put(buffer)
		return nil, 0, io.EOF
	}
	c.received((*buffer)[:n])
	return buffer, n, nil
}

// readyRead reads into a buffer of the pool.
type readyRead struct {
	size   int
	pool   mem.BufferPool
	buffer *[]byte // nil after an error
	n      int
	err    error
}

// try reads the bytes that have arrived. It returns false while the connection has no bytes.
func (r *readyRead) try(fd uintptr) (done bool) {
	r.buffer = r.pool.Get(r.size)
	for {
		r.n, r.err = syscall.Read(int(fd), *r.buffer)
		if r.err == nil {
			return true
		}
		if !errors.Is(r.err, syscall.EINTR) {
			break
		}
	}
	r.pool.Put(r.buffer)
	r.buffer = nil
	return !errors.Is(r.err, syscall.EAGAIN)
}
