// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// HeaderDegraded names the failure mode that decided in place of Redis: open,
// closed or local.
const HeaderDegraded = "Weir-Degraded"

const (
	headerAllow         = "Allow"
	headerConnection    = "Connection"
	headerContentLength = "Content-Length"
	headerContentType   = "Content-Type"
	headerRetryAfter    = "Retry-After"
)

const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeText    = "text/plain; charset=utf-8"
)

// verdict is a decision as JSON.
type verdict struct {
	Allowed  bool           `json:"allowed"`
	Reason   limiter.Reason `json:"reason"`
	Policy   string         `json:"policy"`
	Limit    string         `json:"limit"`
	Override string         `json:"override,omitempty"`
	Limits   []limitState   `json:"limits"`
	Revision int64          `json:"revision"`
}

// limitState is one limit of a decision as JSON.
type limitState struct {
	Policy                string `json:"policy"`
	Limit                 string `json:"limit"`
	Override              string `json:"override,omitempty"`
	Allowed               bool   `json:"allowed"`
	Used                  int64  `json:"used"`
	Threshold             int64  `json:"threshold"`
	Remaining             int64  `json:"remaining"`
	RetryAfterMs          waitMs `json:"retryAfterMs,omitzero"`
	RemainingAfterWaiting int64  `json:"remainingAfterWaiting"`
	ResetAfterMs          int64  `json:"resetAfterMs"`
	Shadow                bool   `json:"shadow"`
	SuppressionFactor     share  `json:"suppressionFactor,omitzero"`
}

// share is a part of a whole, 0..1. Negative is one that the limit does not
// have, and is left out.
type share float64

// IsZero says which values encoding/json leaves out.
func (s share) IsZero() bool { return s < 0 }

// waitMs is a time to wait in milliseconds. Negative is for ever, which JSON
// says by leaving the member out.
type waitMs int64

// IsZero says which values encoding/json leaves out.
func (w waitMs) IsZero() bool { return w < 0 }

// refusal is a refused decision as JSON.
type refusal struct {
	problem
	verdict
}

// exchange is the memory one check needs, kept for the next one.
type exchange struct {
	in, out bytes.Buffer
	encoder *json.Encoder // writes to out
	body    refusal
}

var exchanges = sync.Pool{New: func() any {
	x := &exchange{}
	x.body.Limits = []limitState{} // an empty list, not null
	x.encoder = json.NewEncoder(&x.out)
	x.encoder.SetEscapeHTML(false)
	return x
}}

func takeExchange() *exchange { return exchanges.Get().(*exchange) }

func (x *exchange) release() {
	x.in.Reset()
	x.out.Reset()
	clear(x.body.Limits)
	x.body = refusal{verdict: verdict{Limits: x.body.Limits[:0]}}
	exchanges.Put(x)
}

// answer writes the decision.
func (x *exchange) answer(w http.ResponseWriter, d *limiter.Decision, m manner) {
	x.fill(d)
	if d.Degraded != "" {
		w.Header().Set(HeaderDegraded, strings.ToLower(string(d.Degraded)))
	}
	status, contentType := http.StatusOK, typeJSON
	var body any = &x.body.verdict
	if !d.Allowed {
		status, contentType, body = statusOf(d.Reason), typeProblem, &x.body
		x.body.problem = refused(d, status)
		if m.denyStatus != 0 {
			status = m.denyStatus
			x.body.problem = x.body.about(status)
		}
		setRetryAfter(w, x.body.RetryAfter)
	}
	setLimitHeaders(w.Header(), d, x.body.RetryAfter, m.legacyHeaders)
	if d.Allowed && m.silent {
		w.WriteHeader(status)
		return
	}
	_ = x.encoder.Encode(body) //nolint:errchkjson // body is one of two plain structs
	write(w, status, contentType, x.out.Bytes())
}

// fill makes the verdict of the decision.
func (x *exchange) fill(d *limiter.Decision) {
	v := &x.body.verdict
	v.Allowed, v.Reason, v.Revision = d.Allowed, d.Reason, d.Revision
	v.Policy, v.Limit, v.Override = d.Policy, d.Limit, d.Override
	for i := range d.Limits {
		v.Limits = append(v.Limits, limitStateOf(&d.Limits[i]))
	}
}

func limitStateOf(l *limiter.LimitState) limitState {
	wait := waitMs(-1)
	if l.RetryAfter >= 0 {
		wait = waitMs(roundUp(l.RetryAfter, time.Millisecond))
	}
	suppression := share(-1)
	if l.Algorithm == plan.Suppressed {
		suppression = share(l.SuppressionFactor)
	}
	return limitState{
		Policy:                l.Policy,
		Limit:                 l.Limit,
		Override:              l.Override,
		Allowed:               l.Allowed,
		Used:                  l.Used,
		Threshold:             l.Threshold,
		Remaining:             l.Remaining,
		RetryAfterMs:          wait,
		RemainingAfterWaiting: l.RemainingAfterWaiting,
		ResetAfterMs:          roundUp(l.ResetAfter, time.Millisecond),
		Shadow:                l.Shadow,
		SuppressionFactor:     suppression,
	}
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

// roundUp returns the duration in units, so that waiting that long is enough.
func roundUp(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// setRetryAfter tells the caller to wait; 0 seconds means that it is no use.
func setRetryAfter(w http.ResponseWriter, seconds int64) {
	if seconds > 0 {
		w.Header().Set(headerRetryAfter, strconv.FormatInt(seconds, 10))
	}
}

// write sends a whole answer.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set(headerContentType, contentType)
	w.Header().Set(headerContentLength, strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// An error means that the caller has gone.
	_, _ = w.Write(body)
}

// writeText sends an answer for people and probes.
func writeText(w http.ResponseWriter, status int, text string) {
	write(w, status, typeText, []byte(text))
}
