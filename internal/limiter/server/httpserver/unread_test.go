// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
)

// Clients that read no responses cannot keep the memory of many large requests.
func TestUnreadResponsesAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		secured     bool
		connections int
		attack      func(g *WithT, s *running) net.Conn
	}{
		"HTTP/1": {false, 500, sendPipelined},
		"HTTP/2": {true, 20, sendStreams},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			metrics := prometheus.NewRegistry()
			s := startEither(t, tc.secured, Options{
				Handler: http.HandlerFunc(answerLarge), Logger: slog.New(slog.DiscardHandler), Port: "http",
				Connections: connlimit.New(connlimit.Options{Registerer: metrics, Logger: slog.New(slog.DiscardHandler)}),
			})
			haveClosed := func() bool {
				families, err := metrics.Gather()
				g.Expect(err).NotTo(HaveOccurred())
				return len(families) > 0
			}
			before, most := memory(), int64(0)
			var attackers []net.Conn
			// On a busy machine the server takes less of each connection.
			for i := 0; i < tc.connections || i < 10*tc.connections && !haveClosed(); i++ {
				attackers = append(attackers, tc.attack(g, s))
				if i%10 == 9 {
					most = max(most, memory()-before)
				}
			}
			for _, c := range attackers {
				_ = c.Close()
			}
			t.Log("MiB added:", most>>20)
			g.Expect(most).To(BeNumerically("<", 64<<20))
			g.Expect(haveClosed()).To(BeTrue())
			s.end(g)
		})
	}
}

// unread is a response that fills what a connection with HTTP/1 takes of it.
var unread = make([]byte, 2<<20)

// answerLarge sends a response that the client has to read: with HTTP/2, which has windows, a small one
// suffices.
func answerLarge(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		_, _ = w.Write(unread)
	} else {
		_, _ = w.Write(unread[:3<<10])
	}
}

// sendPipelined sends large requests on one connection until the server reads no more.
func sendPipelined(g *WithT, s *running) net.Conn {
	c := s.dial(g)
	g.Expect(c.(*net.TCPConn).SetReadBuffer(4 << 10)).To(Succeed())
	large := "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 60) + "\r\n"
	g.Expect(c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))).To(Succeed())
	_, _ = io.WriteString(c, strings.Repeat(large, 8))
	return c
}

// sendStreams begins as many large requests as one connection may have, and gives their responses no window.
func sendStreams(g *WithT, s *running) net.Conn {
	c, err := net.Dial("tcp", s.Addr())
	g.Expect(err).NotTo(HaveOccurred())
	secured := tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
	_, _ = io.WriteString(secured, http2.ClientPreface)
	framer := http2.NewFramer(secured, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range 250 {
		block.Reset()
		for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "a"}} {
			_ = encoder.WriteField(f)
		}
		for range 12 {
			_ = encoder.WriteField(hpack.HeaderField{Name: "x-long", Value: strings.Repeat("x", 3900)})
		}
		if framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}) != nil {
			break
		}
	}
	return secured
}

// The client of a request whose body is not read to its end gets the response, before its connection ends.
func TestResponsesToUnreadBodiesArrive(t *testing.T) {
	for _, secured := range []bool{false, true} {
		g := NewWithT(t)
		s := startEither(t, secured, Options{
			Logger:  slog.New(slog.DiscardHandler),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) }),
		})
		c := s.dial(g)
		_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n")
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.StatusCode).To(Equal(http.StatusRequestEntityTooLarge))
		g.Expect(response.Body.Close()).To(Succeed())
		_, err = c.Write(make([]byte, 64<<10))
		g.Expect(err).NotTo(HaveOccurred(), "it may still send some of the body")
		g.Expect(c.Close()).To(Succeed())
		s.end(g)
	}
}

// A client that does not read its response loses the connection after the write timeout.
func TestUnreadResponseEnds(t *testing.T) {
	for _, secured := range []bool{false, true} {
		g := NewWithT(t)
		ended := make(chan error, 1)
		s := startEither(t, secured, Options{
			Logger: slog.New(slog.DiscardHandler),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, err := w.Write(make([]byte, 64<<20))
				ended <- err
			}),
		})
		c := s.dial(g)
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(ended, "2m").Should(Receive(HaveOccurred()))
		g.Expect(c.Close()).To(Succeed())
		s.end(g)
	}
}

// Headers that do not end are not seen with HTTP/2, so each connection counts.
func TestConnectionsWithHTTP2HoldMemory(t *testing.T) {
	g := NewWithT(t)
	const most = 4
	bounds := connlimit.DefaultBounds
	bounds.Served.Bytes = most * http2Bytes
	metrics := prometheus.NewRegistry()
	s := startEither(t, true, Options{
		Logger: slog.New(slog.DiscardHandler), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Port: "http",
		Connections: connlimit.New(connlimit.Options{Bounds: &bounds, Registerer: metrics, Logger: slog.New(slog.DiscardHandler)}),
	})
	for range 2 * most {
		client := &http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		}}
		response, err := client.Get("https://" + s.Addr())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.ProtoMajor).To(Equal(2))
		g.Expect(response.Body.Close()).To(Succeed())
		defer client.CloseIdleConnections()
	}
	closed := func() float64 {
		families, err := metrics.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		if len(families) == 0 {
			return 0
		}
		return families[0].GetMetric()[0].GetCounter().GetValue()
	}
	g.Eventually(closed, "30s").Should(Equal(float64(most)))
	s.end(g)
}
