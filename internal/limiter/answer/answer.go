// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-dev/weir/internal/limiter"
)

// The headers of answers, beside those of ratelimit.go.
const (
	HeaderContentType = "Content-Type"
	HeaderRetryAfter  = "Retry-After"
	// HeaderDegraded names the failure mode that decided in place of Redis: open,
	// closed or local.
	HeaderDegraded = "Weir-Degraded"
)

// The types of bodies.
const (
	TypeJSON    = "application/json"
	TypeProblem = "application/problem+json"
)

// Manner is how a door answers.
type Manner struct {
	// DenyStatus is the status of all refusals, for a door whose proxy knows one
	// only; 0 is one for each reason.
	DenyStatus int
	// Silent leaves out the body where the request may pass.
	Silent bool
	// LegacyHeaders adds X-RateLimit-Limit, -Remaining and -Reset.
	LegacyHeaders bool
}

// Header is one header of an answer.
type Header struct{ Name, Value string }

// Answer is a decision as HTTP says it. It is valid until Release.
type Answer struct {
	Status int
	// Headers are in the spelling in which they are to be sent, each name once,
	// Content-Type among them where there is a body.
	Headers []Header
	// Body is empty where there is none.
	Body []byte

	out     bytes.Buffer
	encoder *json.Encoder // writes to out
	said    refusal
}

var answers = sync.Pool{New: func() any {
	a := &Answer{}
	a.said.Limits = []LimitState{} // an empty list, not null
	a.encoder = json.NewEncoder(&a.out)
	a.encoder.SetEscapeHTML(false)
	return a
}}

// New returns the decision in that manner.
func New(d *limiter.Decision, m Manner) *Answer {
	a := answers.Get().(*Answer)
	a.Status = http.StatusOK
	if d.Degraded != "" {
		a.add(HeaderDegraded, strings.ToLower(string(d.Degraded)))
	}
	if !d.Allowed {
		a.refuse(d, m)
	}
	a.addLimits(d, a.said.RetryAfter, m.LegacyHeaders)
	switch {
	case !d.Allowed:
		a.encode(d, TypeProblem, &a.said)
	case !m.Silent:
		a.encode(d, TypeJSON, &a.said.Verdict)
	}
	return a
}

// Release gives back the memory of the answer, for the next one.
func (a *Answer) Release() {
	a.out.Reset()
	clear(a.said.Limits)
	a.said = refusal{Verdict: Verdict{Limits: a.said.Limits[:0]}}
	clear(a.Headers)
	a.Headers, a.Body = a.Headers[:0], nil
	answers.Put(a)
}

func (a *Answer) add(name, value string) { a.Headers = append(a.Headers, Header{name, value}) }

// refuse says how long to wait; no Retry-After means that it is no use.
func (a *Answer) refuse(d *limiter.Decision, m Manner) {
	a.Status = statusOf(d.Reason)
	a.said.Problem = refused(d, a.Status)
	if m.DenyStatus != 0 {
		a.Status = m.DenyStatus
		a.said.Problem = a.said.About(a.Status)
	}
	if a.said.RetryAfter > 0 {
		a.add(HeaderRetryAfter, strconv.FormatInt(a.said.RetryAfter, 10))
	}
}

func (a *Answer) encode(d *limiter.Decision, contentType string, body any) {
	a.said.fill(d)
	a.add(HeaderContentType, contentType)
	_ = a.encoder.Encode(body) //nolint:errchkjson // body is one of two plain structs
	a.Body = a.out.Bytes()
}

// statusOf returns the status of a refusal.
func statusOf(reason limiter.Reason) int {
	switch reason {
	case limiter.ReasonMissingKey, limiter.ReasonDeniedByOverride:
		return http.StatusForbidden
	case limiter.ReasonStoreUnavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusTooManyRequests
	}
}
