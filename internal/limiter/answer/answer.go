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

// Headers of answers; ratelimit.go has the others.
const (
	HeaderContentType = "Content-Type"
	HeaderRetryAfter  = "Retry-After"
	// HeaderDegraded is the failure mode that decided because Redis did not answer:
	// open, closed or local.
	HeaderDegraded = "Weir-Degraded"
)

// Content types of bodies.
const (
	TypeJSON    = "application/json"
	TypeProblem = "application/problem+json"
)

// Options select how a door answers.
type Options struct {
	// DenyStatus is the status of every denial, for a proxy that understands only one;
	// 0 selects the status by reason.
	DenyStatus int
	// BodyOnDenialOnly leaves out the body of an allowed decision.
	BodyOnDenialOnly bool
	// LegacyHeaders adds X-RateLimit-Limit, -Remaining and -Reset.
	LegacyHeaders bool
}

// Header is one header of an answer.
type Header struct{ Name, Value string }

// Answer is a decision as an HTTP response. It is valid until Release.
type Answer struct {
	Status int
	// Headers are spelled as they must be sent. Each name occurs once. Content-Type is
	// among them if there is a body.
	Headers []Header
	Body    []byte // may be empty

	out     bytes.Buffer
	encoder *json.Encoder // writes to out
	content denialBody
}

var answers = sync.Pool{New: func() any {
	a := &Answer{}
	a.content.Limits = []LimitState{} // an empty list, not null
	a.encoder = json.NewEncoder(&a.out)
	a.encoder.SetEscapeHTML(false)
	return a
}}

// New returns the answer for the decision.
func New(d *limiter.Decision, o Options) *Answer {
	a := answers.Get().(*Answer)
	a.Status = http.StatusOK
	if d.Degraded != "" {
		a.add(HeaderDegraded, strings.ToLower(string(d.Degraded)))
	}
	if !d.Allowed {
		a.setDenial(d, o)
	}
	a.addLimits(d, a.content.RetryAfter, o.LegacyHeaders)
	switch {
	case !d.Allowed:
		a.encode(d, TypeProblem, &a.content)
	case !o.BodyOnDenialOnly:
		a.encode(d, TypeJSON, &a.content.DecisionBody)
	}
	return a
}

// Release returns the answer to a pool. It must not be used afterwards.
func (a *Answer) Release() {
	a.out.Reset()
	clear(a.content.Limits)
	a.content = denialBody{DecisionBody: DecisionBody{Limits: a.content.Limits[:0]}}
	clear(a.Headers)
	a.Headers, a.Body = a.Headers[:0], nil
	answers.Put(a)
}

func (a *Answer) add(name, value string) { a.Headers = append(a.Headers, Header{name, value}) }

// setDenial sets the status, the problem and Retry-After, which is left out where waiting
// does not help.
func (a *Answer) setDenial(d *limiter.Decision, o Options) {
	a.Status = statusOf(d.Reason)
	a.content.Problem = problemOf(d, a.Status)
	if o.DenyStatus != 0 {
		a.Status = o.DenyStatus
		a.content.Problem = a.content.WithStatus(a.Status)
	}
	if a.content.RetryAfter > 0 {
		a.add(HeaderRetryAfter, strconv.FormatInt(a.content.RetryAfter, 10))
	}
}

func (a *Answer) encode(d *limiter.Decision, contentType string, body any) {
	a.content.fill(d)
	a.add(HeaderContentType, contentType)
	_ = a.encoder.Encode(body) //nolint:errchkjson // body is one of two plain structs
	a.Body = a.out.Bytes()
}

// statusOf returns the status of a denial.
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
