// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"net/http"
	"slices"
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
	// HeaderOverflow is "true" if a limit decided about an unknown key by the budget that such keys
	// share during a flood.
	HeaderOverflow = "Weir-Overflow"
)

// Content types of bodies.
const (
	TypeJSON    = "application/json"
	TypeProblem = "application/problem+json"
)

// Options select how a frontend answers.
type Options struct {
	// DenyStatus is the status of every denial, for a proxy that understands only one;
	// 0 selects the status by reason.
	DenyStatus int
	// BodyOnDenialOnly leaves out the body of an allowed decision.
	BodyOnDenialOnly bool
	// ForClients is true if clients of a proxy receive the answer: a denial by a limit or a block has
	// the status, headers and body that its policy sets.
	ForClients bool
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

	text   []byte // the values of the headers in parts
	parts  []part
	states []byte // memory for the RateLimit header
	json   []byte // memory of Body

	problem  Problem // of a denial
	decision DecisionBody
}

// part is the part of Answer.text that is the value of a header.
type part struct{ header, start, end int }

var answers = sync.Pool{New: func() any {
	return &Answer{decision: DecisionBody{Limits: []LimitState{}}} // an empty list, not null
}}

// New returns the answer for the decision.
func New(d *limiter.Decision, o Options) *Answer {
	a := answers.Get().(*Answer)
	a.Status = http.StatusOK
	if d.Degraded != "" {
		a.add(HeaderDegraded, strings.ToLower(string(d.Degraded)))
	}
	if slices.ContainsFunc(d.Limits, func(l limiter.LimitState) bool { return l.Overflow }) {
		a.add(HeaderOverflow, "true")
	}
	custom := isCustom(d, o)
	if !d.Allowed {
		a.setDenial(d, o, custom)
	}
	a.addLimits(d, a.problem.RetryAfter, o.LegacyHeaders)
	if custom {
		for _, h := range d.Denial.Headers {
			a.add(h.Name, h.Value)
		}
	}
	switch {
	case custom && d.Denial.Body.Template != "":
		a.setCustomBody(d)
	case !d.Allowed || !o.BodyOnDenialOnly:
		a.setBody(d)
	}
	a.closeHeaders()
	return a
}

// isCustom reports whether the answer is a denial with the status, headers and body that its policy sets.
func isCustom(d *limiter.Decision, o Options) bool {
	return o.ForClients && !d.Allowed && statusOf(d.Reason) == http.StatusTooManyRequests
}

// Release returns the answer to a pool. It must not be used afterwards.
func (a *Answer) Release() {
	clear(a.decision.Limits)
	clear(a.Headers)
	*a = Answer{
		Headers: a.Headers[:0], text: a.text[:0], parts: a.parts[:0], states: a.states[:0], json: a.json[:0],
		decision: DecisionBody{Limits: a.decision.Limits[:0]},
	}
	answers.Put(a)
}

func (a *Answer) add(name, value string) { a.Headers = append(a.Headers, Header{name, value}) }

// addText adds a header whose value is the text from start on.
func (a *Answer) addText(name string, start int) {
	a.parts = append(a.parts, part{header: len(a.Headers), start: start, end: len(a.text)})
	a.add(name, "")
}

func (a *Answer) addNumber(name string, value int64) {
	start := len(a.text)
	a.text = strconv.AppendInt(a.text, value, 10)
	a.addText(name, start)
}

// closeHeaders sets the values of the headers added by addText. They share one string.
func (a *Answer) closeHeaders() {
	text := string(a.text)
	for _, p := range a.parts {
		a.Headers[p.header].Value = text[p.start:p.end]
	}
}

// setDenial sets the status, the problem and Retry-After, which is left out where waiting
// does not help.
func (a *Answer) setDenial(d *limiter.Decision, o Options, custom bool) {
	a.Status = statusOf(d.Reason)
	a.problem = problemOf(d, a.Status)
	other := o.DenyStatus
	if other == 0 && custom {
		other = d.Denial.Status
	}
	if other != 0 {
		a.Status = other
		a.problem = a.problem.WithStatus(other)
	}
	if a.problem.RetryAfter > 0 {
		a.addNumber(HeaderRetryAfter, a.problem.RetryAfter)
	}
}

// setBody sets the body: the decision or, for a denial, a problem document that also has the
// members of a decision.
func (a *Answer) setBody(d *limiter.Decision) {
	contentType := TypeJSON
	a.json = append(a.json, '{')
	if !d.Allowed {
		contentType = TypeProblem
		a.json = a.problem.appendTo(a.json)
	}
	a.decision.fill(d)
	a.json = append(a.decision.appendTo(a.json), "}\n"...)
	a.add(HeaderContentType, contentType)
	a.Body = a.json
}

// setCustomBody sets the body that the policy sets for a denial.
func (a *Answer) setCustomBody(d *limiter.Decision) {
	body := &d.Denial.Body
	a.json = body.Append(a.json, a.problem.RetryAfter, d.Policy, d.Limit)
	a.add(HeaderContentType, body.ContentTypeHeader())
	a.Body = a.json
}

// statusOf returns the status of a denial.
func statusOf(reason limiter.Reason) int {
	switch reason {
	case limiter.ReasonMissingKey, limiter.ReasonDeniedByOverride:
		return http.StatusForbidden
	case limiter.ReasonStoreUnavailable, limiter.ReasonExpressionsOverBudget:
		return http.StatusServiceUnavailable
	default:
		return http.StatusTooManyRequests
	}
}
