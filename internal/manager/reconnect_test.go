// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestReconnector(t *testing.T) {
	refused := errors.New("connection refused")
	answer := func(code int) *http.Response {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(""))}
	}
	for _, tt := range []struct {
		name, method string
		failures     int // before the answer
		answer       int
		attempts     int
		wantErr      error
	}{
		{name: "answered at once", method: http.MethodGet, answer: 200, attempts: 1},
		{name: "not reached three times", method: http.MethodGet, failures: 3, answer: 200, attempts: 4},
		{name: "an error of the server is an answer", method: http.MethodGet, failures: 1, answer: 503, attempts: 2},
		{name: "a write is not repeated", method: http.MethodPost, failures: 1, attempts: 1, wantErr: refused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			attempts := 0
			var log strings.Builder
			r := &reconnector{pause: time.Millisecond, logger: slog.New(slog.NewTextHandler(&log, nil)), next: roundTripper(func(*http.Request) (*http.Response, error) {
				if attempts++; attempts <= tt.failures {
					return nil, refused
				}
				return answer(tt.answer), nil
			})}
			request, err := http.NewRequestWithContext(t.Context(), tt.method, "https://api.example", http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			response, err := r.RoundTrip(request)
			g.Expect(attempts).To(Equal(tt.attempts))
			if tt.wantErr != nil {
				g.Expect(err).To(MatchError(tt.wantErr))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(response.StatusCode).To(Equal(tt.answer))
			lines := min(2*tt.failures, 2) // once away and once back
			g.Expect(strings.Count(log.String(), "\n")).To(Equal(lines))
		})
	}
}

func TestReconnectorEndsWithItsRequest(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	refused := errors.New("connection refused")
	r := &reconnector{pause: time.Hour, logger: slog.New(slog.DiscardHandler), next: roundTripper(func(*http.Request) (*http.Response, error) {
		cancel()
		return nil, refused
	})}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = r.RoundTrip(request) //nolint:bodyclose // it fails
	g.Expect(err).To(MatchError(refused))
}
