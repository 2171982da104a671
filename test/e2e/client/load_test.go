// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

func TestServeReturnsWhatArrived(t *testing.T) {
	g := NewWithT(t)
	ctx, stop := context.WithCancel(t.Context())
	addr := testenv.FreeAddr(t)
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"serve", addr}, io.Discard) }()
	var out bytes.Buffer
	g.Eventually(func() error {
		return run(ctx, []string{"http", "-method", "GET", "-header", "Host: a", "-header", "X-B: c", "-header", "X-B: d", "http://" + addr + "/e%2f"}, &out)
	}).Should(Succeed())
	var got answer
	g.Expect(json.Unmarshal(out.Bytes(), &got)).To(Succeed())
	g.Expect(got.Millis).To(BeNumerically(">", 0))
	g.Expect(got.Body).To(And(HavePrefix(`{"method":"GET","host":"a","uri":"/e%2f"`), ContainSubstring(`"X-B":["c","d"]`)))
	stop()
	g.Eventually(done).Should(Receive(BeNil()))
}

func TestLoadCountsEveryResponse(t *testing.T) {
	g := NewWithT(t)
	var received atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch received.Add(1) {
		case 1, 2, 3:
		case 4:
			panic(http.ErrAbortHandler) // closes the connection without a response
		default:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(server.Close)

	var out bytes.Buffer
	g.Expect(run(t.Context(), []string{"load", "-rate", "200", "-duration", "200ms", server.URL}, &out)).To(Succeed())
	var got report
	g.Expect(json.Unmarshal(out.Bytes(), &got)).To(Succeed())
	g.Expect(got.Sent).To(BeEquivalentTo(received.Load()))
	g.Expect(got.Statuses).To(Equal(map[string]int{"200": 3, "429": got.Sent - 4}))
	g.Expect(got.Errors).To(HaveLen(1))
	g.Expect(got.Max).To(BeNumerically(">=", got.P99))
}

func TestHTTPPrintsTheResponse(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(r.Method))
	}))
	t.Cleanup(server.Close)

	var out bytes.Buffer
	g.Expect(run(t.Context(), []string{"http", "-data", "{}", server.URL}, &out)).To(Succeed())
	var got answer
	g.Expect(json.Unmarshal(out.Bytes(), &got)).To(Succeed())
	g.Expect(got.Status).To(Equal(http.StatusTooManyRequests))
	g.Expect(got.Headers.Get("Retry-After")).To(Equal("7"))
	g.Expect(got.Body).To(Equal("POST"))
}

func TestUntilWaitsForAll(t *testing.T) {
	g := NewWithT(t)
	var received atomic.Int64
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if received.Add(1) < 5 {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(late.Close)
	early := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(early.Close)

	var out bytes.Buffer
	g.Expect(run(t.Context(), []string{"until", early.URL, late.URL}, &out)).To(Succeed())
	g.Expect(received.Load()).To(BeEquivalentTo(5))
	g.Expect(run(t.Context(), []string{"until", "-status", "418", "-patience", "50ms", early.URL}, &out)).NotTo(Succeed())
}
