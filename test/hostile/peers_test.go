// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// peer is a client on one connection, until it returns or the context ends.
type peer func(ctx context.Context, conn net.Conn)

// crowd runs the peers in turn, one on each of the connections: the first of them on the HTTP port, the
// second on the gRPC port; one may be nil. a.rate connections a second are opened: the first ones, and then
// the peers that have returned.
func crowd(connections int, ofHTTP, ofGRPC peer) load {
	return func(ctx context.Context, a *attacker) {
		var all sync.WaitGroup
		defer all.Wait()
		opened := time.NewTicker(time.Second / time.Duration(a.rate))
		defer opened.Stop()
		complete, due := make(chan struct{}), time.Now()
		for i := range connections {
			address, peer := a.HTTP, ofHTTP
			if ofHTTP == nil || ofGRPC != nil && i%2 == 1 {
				address, peer = a.GRPC, ofGRPC
			}
			due = due.Add(time.Second / time.Duration(a.rate))
			if !pause(ctx, time.Until(due)) {
				return
			}
			all.Go(func() {
				a.serve(ctx, address, peer)
				select {
				case <-complete:
				case <-ctx.Done():
				}
				for tick(ctx, opened) {
					a.serve(ctx, address, peer)
				}
			})
		}
		close(complete)
		a.ready()
	}
}

func tick(ctx context.Context, ticker *time.Ticker) bool {
	select {
	case <-ctx.Done():
		return false
	case <-ticker.C:
		return true
	}
}

// serve runs the peer on a new connection, and closes it when the peer returns or the context ends.
func (a *attacker) serve(ctx context.Context, address string, peer peer) {
	conn, err := a.dial(ctx, address)
	if err != nil {
		a.count(fmt.Sprintf("%.60s", err))
		return
	}
	a.count("connected")
	closed := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer closed()
	peer(ctx, conn)
	_ = conn.Close()
}

// largeRequest is a request with 60 KB of headers and a body of 60 KB.
var largeRequest = "POST /v1/check HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 58) +
	"Content-Length: 60000\r\n\r\n" + strings.Repeat("x", 60_000)

// largeMessage is a call with a message of 60 KB.
var largeMessage = preface + string(frameOf(settings, 0, 0, nil)) + string(headersOf(1)) +
	string(frameOf(data, 0, 1, append([]byte{0, 0, 0, 0xea, 0x60}, make([]byte, 10_000)...)))

// drip sends the first bytes at once, and then a byte at a time.
func drip(text string, begun int) peer {
	return func(ctx context.Context, conn net.Conn) {
		if _, err := io.WriteString(conn, text[:begun]); err != nil {
			return
		}
		for i := begun; i < len(text) && pause(ctx, 50*time.Millisecond); i++ {
			if _, err := io.WriteString(conn, text[i:i+1]); err != nil {
				return
			}
		}
	}
}

// unreadPause is the time between two requests of a peer that reads no reply.
const unreadPause = 20 * time.Millisecond

// neverReads sends requests with large replies, and reads none.
func neverReads(ctx context.Context, conn net.Conn) {
	for pause(ctx, unreadPause) {
		if _, err := io.WriteString(conn, "GET /openapi.yaml HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return
		}
	}
}

// neverReadsFrames makes calls, and reads no reply.
func neverReadsFrames(ctx context.Context, conn net.Conn) {
	begin(conn)
	for stream := uint32(1); pause(ctx, unreadPause); stream += 2 {
		message := frameOf(data, endStream, stream, []byte{0, 0, 0, 0, 0})
		if _, err := conn.Write(append(headersOf(stream), message...)); err != nil {
			return
		}
	}
}

// unfinished begins messages of 4 MiB and never ends them: perSecond of them on all connections.
func unfinished(perSecond int) peer {
	messages := sync.OnceValue(func() *time.Ticker { return time.NewTicker(time.Second / time.Duration(perSecond)) })
	return func(ctx context.Context, conn net.Conn) {
		begin(conn)
		updated := make(chan uint32, 1)
		go readUpdates(conn, updated)
		for stream := uint32(1); tick(ctx, messages()) && sendUnfinished(conn, stream, updated); stream += 2 {
		}
	}
}

// onlyOpen sends one small request and keeps the connection.
func onlyOpen(_ context.Context, conn net.Conn) {
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn) // until weir closes it
}

// onlyOpenFrames opens a connection of HTTP/2 and keeps it.
func onlyOpenFrames(_ context.Context, conn net.Conn) {
	begin(conn)
	_, _ = io.Copy(io.Discard, conn)
}

// sendsOnly sends the text and keeps the connection.
func sendsOnly(text string) peer {
	return func(_ context.Context, conn net.Conn) {
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn) // until weir closes it
	}
}

// halfHeader is a request that does not end.
var halfHeader = "POST /v1/check HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 160)

// sendsFirstByte sends a small request, and after the response the first byte of another one.
func sendsFirstByte(ctx context.Context, conn net.Conn) {
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := conn.Read(make([]byte, 1<<10)); err == nil {
		sendsOnly("G")(ctx, conn)
	}
}

// mayOpen checks that this process may open the number of files, as weir must.
func mayOpen(files uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < files {
		return fmt.Errorf("the hard limit of open files is %d, and the attack needs %d: raise it with `ulimit -Hn`", limit.Max, files)
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// Frames of HTTP/2.
const (
	data, headers, settings, windowUpdate = 0, 1, 4, 8

	endStream, endHeaders = 1, 4
)

// preface is what a client of HTTP/2 sends before its first frame.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// begin writes what a client of HTTP/2 sends first.
func begin(conn net.Conn) {
	_, _ = io.WriteString(conn, preface)
	_, _ = conn.Write(frameOf(settings, 0, 0, nil))
}

// readUpdates notes updates of windows until the connection is closed.
func readUpdates(conn net.Conn, updated chan<- uint32) {
	defer close(updated)
	var header [9]byte
	for {
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		stream := binary.BigEndian.Uint32(header[5:])
		if header[3] == windowUpdate && stream != 0 {
			select {
			case updated <- stream:
			default:
			}
		}
		length := int64(header[0])<<16 | int64(header[1])<<8 | int64(header[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return
		}
	}
}

// sendUnfinished sends a message of 4 MiB without its last bytes, as far as weir accepts it. It waits for
// the larger window that gRPC grants to such a message.
func sendUnfinished(conn net.Conn, stream uint32, updated <-chan uint32) bool {
	const length = 4<<20 - 100
	start := append(headersOf(stream), frameOf(data, 0, stream, binary.BigEndian.AppendUint32([]byte{0}, length))...)
	if _, err := conn.Write(append(start, frameOf(data, 0, stream, make([]byte, 1<<10))...)); err != nil {
		return false
	}
	if _, open := <-updated; !open {
		return false
	}
	part := frameOf(data, 0, stream, make([]byte, 16<<10))
	for left := length - 1<<10; left > len(part); left -= len(part) {
		if _, err := conn.Write(part); err != nil {
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

// headersOf returns a HEADERS frame for a call of the rate limit service, with literals that are not
// indexed (RFC 7541, section 6.2.2).
func headersOf(stream uint32) []byte {
	var block []byte
	for i, text := range []string{
		":method", "POST", ":scheme", "http", ":path", ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName,
		":authority", "a", "content-type", "application/grpc", "te", "trailers",
	} {
		if i%2 == 0 {
			block = append(block, 0)
		}
		block = append(append(block, byte(len(text))), text...)
	}
	return frameOf(headers, endHeaders, stream, block)
}
