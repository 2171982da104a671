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

// Options is how a door answers.
type Options struct {
	// DenyStatus is the status of all refusals, for a door whose proxy knows one
	// only; 0 is one for each reason.
	DenyStatus int
	// BodyOnDenialOnly leaves out the body where the request may pass.
	BodyOnDenialOnly bool
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
	content denialBody
}

var answers = sync.Pool{New: func() any {
	a := &Answer{}
	a.content.Limits = []LimitState{} // an empty list, not null
	a.encoder = json.NewEncoder(&a.out)
	a.encoder.SetEscapeHTML(false)
	return a
}}

// New returns the decision in that manner.
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

// Release gives back the memory of the answer, for the next one.
func (a *Answer) Release() {
	a.out.Reset()
	clear(a.content.Limits)
	a.content = denialBody{DecisionBody: DecisionBody{Limits: a.content.Limits[:0]}}
	clear(a.Headers)
	a.Headers, a.Body = a.Headers[:0], nil
	answers.Put(a)
}

func (a *Answer) add(name, value string) { a.Headers = append(a.Headers, Header{name, value}) }

// refuse says how long to wait; no Retry-After means that it is no use.
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
