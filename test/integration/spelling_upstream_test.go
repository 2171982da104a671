// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

// request is a request as the upstream received it.
type request struct {
	method, target, version string
	headers                 []header
	trailers                []header
}

type header struct{ name, value string }

// upstream is a server that interprets nothing. It answers every request with 200 and keeps it.
type upstream struct {
	address string

	mu       sync.Mutex
	received []request
}

func startUpstream(t *testing.T) *upstream {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	u := &upstream{address: listener.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { u.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = listener.Close() })
	return u
}

// serve reads one request of the connection, so that nothing of it can be taken for a second one.
func (u *upstream) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r, err := readRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	u.mu.Lock()
	u.received = append(u.received, r)
	u.mu.Unlock()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

// take returns the requests since the last call.
func (u *upstream) take() []request {
	u.mu.Lock()
	defer u.mu.Unlock()
	received := u.received
	u.received = nil
	return received
}

func readRequest(from *bufio.Reader) (r request, err error) {
	lines := textproto.NewReader(from)
	first, err := lines.ReadLine()
	if err != nil {
		return r, err
	}
	r.method, r.target, _ = strings.Cut(first, " ")
	if i := strings.LastIndexByte(r.target, ' '); i >= 0 {
		r.target, r.version = r.target[:i], r.target[i+1:]
	}
	if r.headers, err = readHeaders(lines); err != nil {
		return r, err
	}
	if strings.EqualFold(r.first("Transfer-Encoding"), "chunked") {
		r.trailers, err = skipChunks(lines)
		return r, err
	}
	length, _ := strconv.Atoi(r.first("Content-Length"))
	_, err = io.CopyN(io.Discard, from, int64(length))
	return r, err
}

func readHeaders(lines *textproto.Reader) (all []header, err error) {
	for {
		line, err := lines.ReadLine()
		if err != nil || line == "" {
			return all, err
		}
		name, value, _ := strings.Cut(line, ":")
		all = append(all, header{name, strings.TrimSpace(value)})
	}
}

// skipChunks reads a chunked body and returns its trailers.
func skipChunks(lines *textproto.Reader) ([]header, error) {
	for {
		size, err := lines.ReadLine()
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return readHeaders(lines)
		}
		if _, err := io.CopyN(io.Discard, lines.R, n+2); err != nil {
			return nil, err
		}
	}
}

// all returns the values of a header.
func (r *request) all(name string) (values []string) {
	for _, h := range r.headers {
		if strings.EqualFold(h.name, name) {
			values = append(values, h.value)
		}
	}
	return values
}

// first returns the first value of a header, or "".
func (r *request) first(name string) string {
	if values := r.all(name); len(values) > 0 {
		return values[0]
	}
	return ""
}
