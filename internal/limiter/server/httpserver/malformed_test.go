// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// startTLS starts a server with the certificate of a test server.
func startTLS(t *testing.T, o Options) *running {
	t.Helper()
	lender := httptest.NewTLSServer(nil)
	t.Cleanup(lender.Close)
	o.TLS = &tls.Config{Certificates: lender.TLS.Certificates, MinVersion: tls.VersionTLS12}
	s := start(t, o)
	s.client, s.url = lender.Client(), "https://"+s.Addr()
	return s
}

// end stops the server and waits for its end.
func (s *running) end(g *WithT) {
	s.stop()
	s.drainDelay <- time.Time{}
	g.Eventually(s.ended, "30s").Should(Receive(BeNil()))
}

// exchange writes the text and returns the first response.
func exchange(g *WithT, c net.Conn, text string) (status int, contentType, body string) {
	go func() { _, _ = io.WriteString(c, text) }() // the server may close before it has read all
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	received, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, response.Header.Get("Content-Type"), string(received)
}

// What net/http rejects by itself is a problem document, and never a 5xx.
func TestMalformedRequestsAreProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		request string
		status  int
		detail  string
	}{
		"transfer encoding":    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400, "The transfer encoding is not supported."},
		"unknown encoding":     {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n", 400, "The transfer encoding is not supported."},
		"no host":              {"GET / HTTP/1.1\r\n\r\n", 400, "Missing required Host header."},
		"malformed host":       {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "Malformed Host header."},
		"not HTTP":             {"hello\r\n\r\n", 400, "The request is malformed."},
		"name of a header":     {"GET / HTTP/1.1\r\nHost: a\r\nx y: c\r\n\r\n", 400, "Invalid header name."},
		"value of a header":    {"GET / HTTP/1.1\r\nHost: a\r\na: \x01\r\n\r\n", 400, "The request is malformed."},
		"header without colon": {"GET / HTTP/1.1\r\nHost: a\r\nab\r\n\r\n", 400, "The request is malformed."},
		"two lengths":          {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "The request is malformed."},
		"negative length":      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, "The request is malformed."},
		"version":              {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 400, "Unsupported protocol version."},
		"large headers":        {"GET / HTTP/1.1\r\nHost: a\r\na: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", 431, "The headers are larger than 64 KiB."},
		"expectation":          {"POST / HTTP/1.1\r\nHost: a\r\nExpect: x\r\nContent-Length: 1\r\n\r\n", 417, "The expectation is not supported."},
		"in a second request":  {"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n", 400, "Missing required Host header."},
	} {
		for _, secured := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " over TLS"}[secured], func(t *testing.T) {
				g := NewWithT(t)
				s := startEither(t, secured, Options{Handler: newGate()})
				c := s.dial(g)
				if _, second, ok := strings.Cut(tc.request, "\r\n\r\nGET"); ok {
					status, _, _ := exchange(g, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
					g.Expect(status).To(Equal(200))
					tc.request = "GET" + second
				}
				status, contentType, body := exchange(g, c, tc.request)
				g.Expect(status).To(Equal(tc.status))
				g.Expect(contentType).To(Equal("application/problem+json"))
				var p problem
				g.Expect(json.Unmarshal([]byte(body), &p)).To(Succeed())
				g.Expect([]any{p.Status, p.Detail}).To(Equal([]any{tc.status, tc.detail}))
				g.Expect(c.Close()).To(Succeed())
				s.end(g)
			})
		}
	}
}

func startEither(t *testing.T, secured bool, o Options) *running {
	t.Helper()
	if secured {
		return startTLS(t, o)
	}
	return start(t, o)
}

// dial opens a connection, with TLS if the server has it.
func (s *running) dial(g *WithT) net.Conn {
	if !strings.HasPrefix(s.url, "https") {
		c, err := net.Dial("tcp", s.Addr())
		g.Expect(err).NotTo(HaveOccurred())
		return c
	}
	c, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

func TestPlainHTTPOnATLSPortIsAProblem(t *testing.T) {
	g := NewWithT(t)
	s := startTLS(t, Options{Handler: newGate()})
	c, err := net.Dial("tcp", s.Addr())
	g.Expect(err).NotTo(HaveOccurred())
	status, _, body := exchange(g, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	g.Expect(status).To(Equal(400))
	g.Expect(body).To(ContainSubstring("The port serves HTTPS"))
	s.end(g)
}

// Only what net/http writes by itself is replaced, whatever a handler writes.
func TestResponsesOfHandlersAreNotReplaced(t *testing.T) {
	for _, secured := range []bool{false, true} {
		g := NewWithT(t)
		s := startEither(t, secured, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.Expect(r.TLS != nil).To(Equal(secured))
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = io.WriteString(w, "Unsupported transfer encoding")
		})})
		status, _, body := exchange(g, s.dial(g), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		g.Expect(status).To(Equal(501))
		g.Expect(body).To(Equal("Unsupported transfer encoding"))
		s.end(g)
	}
}

func TestServerServesHTTP2(t *testing.T) {
	g := NewWithT(t)
	s := startTLS(t, Options{Handler: newGate()})
	s.client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	r, err := s.client.Post(s.url, "text/plain", strings.NewReader("a"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Body.Close()).To(Succeed())
	g.Expect(r.Proto).To(Equal("HTTP/2.0"))
	s.client.CloseIdleConnections()
	s.end(g)
}
