// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
)

// memory returns the memory in use, in bytes.
func memory() int64 {
	runtime.GC()
	runtime.GC() // pools keep what they have for one cycle
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// readAll is a handler that holds the body of its request, at most 64 KiB.
func readAll(w http.ResponseWriter, r *http.Request) {
	_, _ = io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
}

// Slow requests on 1,000 connections take at most 64 MiB, while another client is served on a
// connection that is never closed.
func TestSlowRequestsAreBounded(t *testing.T) {
	const open = "POST / HTTP/1.1\r\nHost: a\r\n"
	for name, text := range map[string]string{
		"nothing":       "",
		"large headers": open + strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 60),
		"small headers": open + strings.Repeat("a: b\r\n", 5000),
		"a body":        open + "Content-Length: 65536\r\n\r\n" + strings.Repeat("x", 60<<10),
		"both": open + strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 60) +
			"Content-Length: 65536\r\n\r\n" + strings.Repeat("x", 60<<10),
	} {
		for _, secured := range []bool{false, true} {
			if secured && name != "nothing" && name != "a body" {
				continue // handshakes take long
			}
			t.Run(name+map[bool]string{true: " over TLS"}[secured], func(t *testing.T) {
				g := NewWithT(t)
				metrics := prometheus.NewRegistry()
				s := startEither(t, secured, Options{
					Handler: http.HandlerFunc(readAll), Logger: slog.New(slog.DiscardHandler), Port: "http",
					Connections: connlimit.New(connlimit.Options{Registerer: metrics, Logger: slog.New(slog.DiscardHandler)}),
				})
				most := s.attackWith(g, 1000, text)
				t.Log("MiB added:", most>>20)
				g.Expect(most).To(BeNumerically("<", 64<<20))
				families, err := metrics.Gather()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(families).NotTo(BeEmpty(), "connections were closed")
				s.end(g)
			})
		}
	}
}

// attackWith sends the text on each of the connections, while another client sends requests on one
// connection. It returns the most memory that this took.
func (s *running) attackWith(g *WithT, connections int, text string) (most int64) {
	client := s.dial(g)
	responses := bufio.NewReader(client)
	get := func() bool {
		if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na"); err != nil {
			return false
		}
		r, err := http.ReadResponse(responses, nil)
		return err == nil && r.Body.Close() == nil && r.StatusCode == http.StatusOK
	}
	g.Expect(get()).To(BeTrue())
	before := memory()
	var running, failed atomic.Bool
	running.Store(true)
	var other sync.WaitGroup
	other.Go(func() {
		for running.Load() {
			if !get() {
				failed.Store(true)
			}
		}
	})
	attackers := make([]net.Conn, 0, connections)
	for i := range connections {
		c, err := net.Dial("tcp", s.Addr())
		g.Expect(err).NotTo(HaveOccurred())
		if strings.HasPrefix(s.url, "https") {
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
		}
		attackers = append(attackers, c)
		if text != "" { // else it begins no handshake
			_, _ = io.WriteString(attackers[i], text) // the server may have closed it
		}
		if i%100 == 99 {
			most = max(most, memory()-before)
		}
	}
	running.Store(false)
	other.Wait()
	for _, c := range attackers {
		_ = c.Close()
	}
	g.Expect(failed.Load()).To(BeFalse(), "requests of another client")
	g.Expect(client.Close()).To(Succeed())
	return most
}
