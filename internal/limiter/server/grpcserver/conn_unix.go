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
}

func withoutPinnedBuffer(c *boundedConn, tcp *net.TCPConn) net.Conn {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	return &readyConn{boundedConn: c, raw: raw}
}

// ReadOnReady implements the Reader of gRPC's transport. It returns a buffer of the pool and the
// number of bytes in it.
func (c *readyConn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	var buffer *[]byte
	var n int
	var failed error
	err := c.raw.Read(func(fd uintptr) (done bool) {
		buffer = pool.Get(size)
		for {
			n, failed = syscall.Read(int(fd), *buffer)
			if !errors.Is(failed, syscall.EINTR) {
				break
			}
		}
		if failed != nil {
			pool.Put(buffer)
		}
		return !errors.Is(failed, syscall.EAGAIN)
	})
	if err == nil {
		err = failed
	}
	switch {
	case err != nil:
		return nil, 0, err
	case n == 0:
		pool.Put(buffer)
		return nil, 0, io.EOF
	}
	c.received((*buffer)[:n])
	return buffer, n, nil
}
