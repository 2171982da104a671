// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package grpcserver

import "net"

func withoutPinnedBuffer(c *boundedConn, _ *net.TCPConn) net.Conn { return c }
