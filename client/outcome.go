// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"net/http"
)

// serveAndCommit reserves the cost of the request, calls next and commits the status of its response.
func (c *Client) serveAndCommit(m *Middleware, next http.Handler, w http.ResponseWriter, r *http.Request, check Check) {
	reservation, err := c.Reserve(r.Context(), Reserve{Check: check})
	if !m.passes(w, r, reservation.Decision, err) {
		return
	}
	response := &watchedResponse{ResponseWriter: w}
	returned := false
	ctx := r.Context()
	defer func() { // also while next panics
		code := response.outcome(ctx, returned)
		go func(ctx context.Context) {
			if _, err := reservation.CommitOutcome(ctx, code); err != nil {
				m.OnError(r, err)
			}
		}(context.WithoutCancel(ctx))
	}()
	next.ServeHTTP(response, r)
	returned = true
}

// watchedResponse records the status of a response.
type watchedResponse struct {
	http.ResponseWriter

	code int // 0 before the header is written
}

// WriteHeader implements http.ResponseWriter. Of several statuses only the informational ones are not the outcome.
func (w *watchedResponse) WriteHeader(code int) {
	if w.code == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *watchedResponse) Write(data []byte) (int, error) {
	w.code = cmp.Or(w.code, http.StatusOK)
	return w.ResponseWriter.Write(data)
}

// Flush implements http.Flusher. It does nothing if the server cannot flush.
func (w *watchedResponse) Flush() {
	if http.NewResponseController(w.ResponseWriter).Flush() == nil && w.code == 0 {
		w.code = http.StatusOK
	}
}

// Unwrap is for http.ResponseController.
func (w *watchedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// outcome returns the status of the response after the handler has returned or panicked, 0 if the client has hung up
// before a response.
func (w *watchedResponse) outcome(ctx context.Context, returned bool) int {
	switch {
	case w.code != 0:
		return w.code
	case !returned:
		return http.StatusInternalServerError
	case ctx.Err() != nil:
		return 0
	default:
		return http.StatusOK // net/http writes it
	}
}
