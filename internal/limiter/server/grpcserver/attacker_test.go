// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
)

const (
	data, headers, reset, settings, ping, windowUpdate, continuation = 0, 1, 3, 4, 6, 8, 9

	endStream, endHeaders, padded = 1, 4, 8

	checkMethod = ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName
)

// attacker is a client that writes frames of its own.
type attacker struct {
	conn net.Conn
	// updated receives the streams whose window the server enlarged.
	updated chan uint32
	// answered counts the calls that the server ended with a status.
	answered atomic.Int64
	closed   chan struct{}
}

// preface begins each HTTP/2 connection (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// dial opens a connection to the server.
func (s *bounded) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	if s.secured {
		conn = tls.Client(conn, clientTLS)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func attack(t *testing.T, s *bounded) *attacker {
	t.Helper()
	a := &attacker{conn: s.dial(t), updated: make(chan uint32, 1), closed: make(chan struct{})}
	if secured, ok := a.conn.(*tls.Conn); ok {
		NewWithT(t).Expect(secured.HandshakeContext(t.Context())).To(Succeed())
	}
	go a.read()
	a.write([]byte(preface))
	a.write(frameOf(settings, 0, 0, nil))
	return a
}

// read notes updates of windows and answers until the server closes the connection.
func (a *attacker) read() {
	defer close(a.closed)
	var header [9]byte
	for {
		if _, err := io.ReadFull(a.conn, header[:]); err != nil {
			return
		}
		stream := binary.BigEndian.Uint32(header[5:])
		switch {
		case header[3] == windowUpdate && stream != 0:
			select {
			case a.updated <- stream:
			default:
			}
		case header[3] == headers && header[4]&endStream != 0:
			a.answered.Add(1)
		}
		length := int64(header[0])<<16 | int64(header[1])<<8 | int64(header[2])
		if _, err := io.CopyN(io.Discard, a.conn, length); err != nil {
			return
		}
	}
}

// write writes what the server still accepts. It reports whether all was written.
func (a *attacker) write(p []byte) bool {
	_, err := a.conn.Write(p)
	return err == nil
}

// sendUnfinished sends a message of 4 MiB without its last bytes, as far as the server accepts it.
func (a *attacker) sendUnfinished(stream uint32) bool {
	const length = 4<<20 - 100
	begin := append(headersOf(stream, checkMethod), frameOf(data, 0, stream, binary.BigEndian.AppendUint32([]byte{0}, length))...)
	begin = append(begin, frameOf(data, 0, stream, make([]byte, 1<<10))...)
	part := frameOf(data, 0, stream, make([]byte, 16<<10))
	if !a.write(begin) {
		return false
	}
	select {
	case <-a.updated:
	case <-a.closed:
		return false
	}
	for left := length - 1<<10; left > len(part); left -= len(part) {
		if !a.write(part) {
			return false
		}
	}
	return true
}

func frameOf(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	header := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return append(binary.BigEndian.AppendUint32(header, stream), payload...)
}

// headersOf returns a HEADERS frame for a gRPC call of the method.
func headersOf(stream uint32, method string) []byte {
	return frameOf(headers, endHeaders, stream, fields(":method", "POST", ":scheme", "http", ":path", method,
		":authority", "a", "content-type", "application/grpc", "te", "trailers"))
}

// callOf returns the frames of a complete check of a short domain.
func callOf(stream uint32, domain string) []byte {
	request := append([]byte{10, byte(len(domain))}, domain...)
	message := append([]byte{0, 0, 0, 0, byte(len(request))}, request...)
	return append(headersOf(stream, checkMethod), frameOf(data, endStream, stream, message)...)
}

// fields encodes pairs of names and values as literals without indexing (RFC 7541, section 6.2.2).
func fields(pairs ...string) (block []byte) {
	for i, text := range pairs {
		if i%2 == 0 {
			block = append(block, 0)
		}
		block = append(append(block, byte(len(text))), text...)
	}
	return block
}
