// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Proxies answer at once, unless they wait for more of a request.
const (
	answerTime = 500 * time.Millisecond
	endTime    = 5 * time.Second
)

// send sends the spelling as it is, and returns when the proxy has answered or closed the
// connection. The status is 0 without an answer.
func (s *spelling) send(t *testing.T, address string) (status int) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
	conn, err := dialer.Dial("tcp", address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	if s.fields != nil {
		return s.sendHTTP2(t, conn)
	}
	_, _ = io.WriteString(conn, s.bytes) // the proxy may close early
	_ = conn.SetReadDeadline(time.Now().Add(answerTime))
	replies := bufio.NewReader(conn)
	if _, err = replies.Peek(1); isTimeout(err) {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(endTime))
	for { // interim responses come before the final one
		response, err := http.ReadResponse(replies, nil)
		if err != nil {
			NewWithT(t).Expect(isTimeout(err)).To(BeFalse(), "no end of %s", s.example())
			return status
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if status = response.StatusCode; status >= http.StatusOK && response.Close {
			return status
		}
		if status >= http.StatusOK {
			_ = conn.(*net.TCPConn).CloseWrite() // answers to hidden requests may follow
		}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// sendHTTP2 sends the spelling as one frame with headers, on a connection without TLS.
func (s *spelling) sendHTTP2(t *testing.T, conn net.Conn) (status int) {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range s.fields {
		_ = encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value})
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = framer.WriteSettings()
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	_ = conn.SetReadDeadline(time.Now().Add(endTime))
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			NewWithT(t).Expect(isTimeout(err)).To(BeFalse(), "no end of %s", s.example())
			return status
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				return 200
			}
			status = 200
		case *http2.DataFrame:
			if f.StreamEnded() {
				return status
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return status
		}
	}
}
