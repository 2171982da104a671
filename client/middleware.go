// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"net/http"
	"time"
)

// Middleware configures a net/http middleware. The zero value checks every request by its
// attributes.
type Middleware struct {
	// Check returns the check of a request; false exempts the request. Nil checks every request
	// with the attributes of Describe.
	Check func(r *http.Request) (Check, bool)
	// Denied answers a denied request, after the headers of the decision were set. Nil answers
	// with Decision.WriteProblem.
	Denied func(w http.ResponseWriter, r *http.Request, d Decision)
	// CountOutcome reserves the cost of the check and commits the status of the response, for policies that
	// compute their cost from it (spec.reservations.cost), such as limits of failed logins. A panic before
	// the response is a 500, a client that hangs up before it a 0, which is unknown. The commit is sent in the
	// background, see Reservation.Commit. The check must not be a Peek.
	CountOutcome bool
	// OnError receives the errors of checks that Weir did not decide, and of commits that Weir did not answer, to
	// log or count them. It may be called after the request. Nil ignores them.
	OnError func(r *http.Request, err error)
}

// Middleware returns a middleware that calls next for requests which are allowed, and answers the
// others. Both get the headers of the decision.
func (c *Client) Middleware(m Middleware) func(next http.Handler) http.Handler {
	if m.Check == nil {
		m.Check = func(r *http.Request) (Check, bool) { return Check{Attributes: Describe(r)}, true }
	}
	if m.Denied == nil {
		m.Denied = func(w http.ResponseWriter, _ *http.Request, d Decision) { d.WriteProblem(w) }
	}
	if m.OnError == nil {
		m.OnError = func(*http.Request, error) {}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			check, limited := m.Check(r)
			if !limited {
				next.ServeHTTP(w, r)
				return
			}
			if m.CountOutcome {
				c.serveAndCommit(&m, next, w, r, check)
				return
			}
			d, err := c.Check(r.Context(), check)
			if m.passes(w, r, d, err) {
				next.ServeHTTP(w, r)
			}
		})
	}
}

// passes reports whether the decision allows the request, and answers it otherwise.
func (m *Middleware) passes(w http.ResponseWriter, r *http.Request, d Decision, err error) bool {
	if err != nil {
		m.OnError(r, err)
	}
	d.SetHeaders(w.Header())
	if !d.Allowed {
		m.Denied(w, r, d)
	}
	return d.Allowed
}

// WriteProblem answers a denied request with its status and a problem document (RFC 9457), which
// has the members title, status, code, detail and, if waiting helps, retryAfter in seconds.
func (d Decision) WriteProblem(w http.ResponseWriter) {
	body, err := json.Marshal(struct {
		Title      string `json:"title"`
		Status     int    `json:"status"`
		Code       string `json:"code"`
		Detail     string `json:"detail"`
		RetryAfter int64  `json:"retryAfter,omitempty"`
	}{http.StatusText(d.Status), d.Status, d.Code, d.Detail, int64(d.RetryAfter / time.Second)})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(d.Status)
	_, _ = w.Write(body) // the client may be gone
}
