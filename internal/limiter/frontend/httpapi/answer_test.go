// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

const namedCheck = `{"policies":["other/one","shop/login"],"key":"user-42"}`

func TestAnswerToAnAllowedCheck(t *testing.T) {
	g := NewWithT(t)
	w := sendCheck(answering(limiter.Decision{Allowed: true, Reason: limiter.ReasonNoPolicy, Revision: 42}), namedCheck)
	g.Expect(w.Code).To(Equal(http.StatusOK))
	g.Expect(w.Body.String()).To(Equal(
		`{"allowed":true,"reason":"NoPolicy","policy":"","limit":"","limits":[],"revision":42}` + "\n"))
	g.Expect(w.Header()).To(Equal(http.Header{
		answer.HeaderContentType: {answer.TypeJSON}, headerContentLength: {strconv.Itoa(w.Body.Len())},
	}))
}

func TestAnswerToADeniedCheck(t *testing.T) {
	g := NewWithT(t)
	w := sendCheck(answering(limiter.Decision{
		Reason: limiter.ReasonLimitExceeded, Policy: "shop/login", Limit: "burst", Revision: 42,
		Denial:     plan.Denial{Code: "TooManyAttempts", Message: "Too many login attempts."},
		RetryAfter: 11001 * time.Millisecond,
		Limits: []limiter.LimitState{
			{
				Policy: "shop/login", Limit: "burst", Used: 5, Quota: 5, Threshold: 5, Window: time.Minute, RetryAfter: 11000*time.Millisecond + 1,
				RemainingAfterWaiting: 1, ResetAfter: time.Microsecond,
			},
			{Policy: "shop/login", Limit: "daily", Allowed: true, Used: 5, Quota: 20, Threshold: 20, Remaining: 15, Shadow: true},
			{Policy: "shop/login", Limit: "tiny", RetryAfter: -1},
		},
	}), namedCheck)
	g.Expect(w.Code).To(Equal(http.StatusTooManyRequests))
	g.Expect(w.Header()).To(Equal(http.Header{
		answer.HeaderContentType: {answer.TypeProblem}, answer.HeaderRetryAfter: {"12"}, headerContentLength: {strconv.Itoa(w.Body.Len())},
		answer.HeaderRateLimitPolicy: {`"shop/login-burst";q=5;w=60, "shop/login-tiny";q=0`},
		answer.HeaderRateLimit:       {`"shop/login-burst";r=0;t=12, "shop/login-tiny";r=0;t=12`},
	}))
	g.Expect(w.Body.String()).To(MatchJSON(`{
		"type": "about:blank", "title": "Too Many Requests", "status": 429,
		"detail": "Too many login attempts. Try again in 12 seconds.",
		"code": "TooManyAttempts", "retryAfter": 12, "context": {"retryAfter": 12},
		"allowed": false, "reason": "LimitExceeded", "policy": "shop/login", "limit": "burst", "revision": 42,
		"limits": [
			{"policy": "shop/login", "limit": "burst", "allowed": false, "used": 5, "threshold": 5, "remaining": 0,
			 "retryAfterMs": 11001, "remainingAfterWaiting": 1, "resetAfterMs": 1, "shadow": false},
			{"policy": "shop/login", "limit": "daily", "allowed": true, "used": 5, "threshold": 20, "remaining": 15,
			 "retryAfterMs": 0, "remainingAfterWaiting": 0, "resetAfterMs": 0, "shadow": true},
			{"policy": "shop/login", "limit": "tiny", "allowed": false, "used": 0, "threshold": 0, "remaining": 0,
			 "remainingAfterWaiting": 0, "resetAfterMs": 0, "shadow": false}
		]}`))
}

func TestAnswerContainsOverrideAndSuppression(t *testing.T) {
	g := NewWithT(t)
	w := sendCheck(answering(limiter.Decision{
		Reason: limiter.ReasonDeniedByOverride, Policy: "shop/login", Override: "banned",
		Denial: plan.Denial{Code: "RateLimited", Message: "This client is denied."},
		Limits: []limiter.LimitState{
			{Policy: "a/b", Limit: "shed", Override: "gold", Group: "partners", Algorithm: plan.Suppressed, SuppressionFactor: 0.25, Threshold: 3},
			{Policy: "a/b", Limit: "calm", Algorithm: plan.Suppressed, Threshold: 3},
		},
	}), namedCheck)
	g.Expect(w.Code).To(Equal(http.StatusForbidden))
	g.Expect(w.Body.String()).To(MatchJSON(`{
		"type": "about:blank", "title": "Forbidden", "status": 403, "detail": "This client is denied.", "code": "RateLimited",
		"allowed": false, "reason": "DeniedByOverride", "policy": "shop/login", "limit": "", "override": "banned", "revision": 0,
		"limits": [
			{"policy": "a/b", "limit": "shed", "override": "gold", "group": "partners", "allowed": false, "used": 0, "threshold": 3, "remaining": 0,
			 "retryAfterMs": 0, "remainingAfterWaiting": 0, "resetAfterMs": 0, "shadow": false, "suppressionFactor": 0.25},
			{"policy": "a/b", "limit": "calm", "allowed": false, "used": 0, "threshold": 3, "remaining": 0,
			 "retryAfterMs": 0, "remainingAfterWaiting": 0, "resetAfterMs": 0, "shadow": false, "suppressionFactor": 0}
		]}`))
}

func TestStatusAndRetryAfterOfEachReason(t *testing.T) {
	tests := map[string]struct {
		decision   limiter.Decision
		status     int
		retryAfter string
	}{
		"nanosecond":         {limiter.Decision{Reason: limiter.ReasonLimitExceeded, RetryAfter: 1}, 429, "1"},
		"whole second":       {limiter.Decision{Reason: limiter.ReasonBlocked, RetryAfter: time.Second}, 429, "1"},
		"just over":          {limiter.Decision{Reason: limiter.ReasonBlocked, RetryAfter: time.Second + 1}, 429, "2"},
		"longest":            {limiter.Decision{Reason: limiter.ReasonBlocked, RetryAfter: plan.MaxWindow}, 429, "2592000"},
		"suppressed":         {limiter.Decision{Reason: limiter.ReasonSuppressed, RetryAfter: time.Second}, 429, "1"},
		"cost above quota":   {limiter.Decision{Reason: limiter.ReasonCostExceedsThreshold}, 429, ""},
		"negative wait":      {limiter.Decision{Reason: limiter.ReasonCostExceedsThreshold, RetryAfter: -time.Second}, 429, ""},
		"missing key":        {limiter.Decision{Reason: limiter.ReasonMissingKey, RetryAfter: time.Second}, 403, ""},
		"denied by override": {limiter.Decision{Reason: limiter.ReasonDeniedByOverride}, 403, ""},
		"no store, closed":   {limiter.Decision{Reason: limiter.ReasonStoreUnavailable, Degraded: plan.FailClosed}, 503, "1"},
		"no store for long":  {limiter.Decision{Reason: limiter.ReasonStoreUnavailable, Degraded: plan.FailClosed, RetryAfter: 1500 * time.Millisecond}, 503, "2"},
		"no store, open":     {limiter.Decision{Allowed: true, Reason: limiter.ReasonStoreUnavailable, Degraded: plan.FailOpen}, 200, ""},
		"allowed":            {limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed}, 200, ""},
		"disabled":           {limiter.Decision{Allowed: true, Reason: limiter.ReasonDisabled}, 200, ""},
		"exempt":             {limiter.Decision{Allowed: true, Reason: limiter.ReasonExempt}, 200, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := sendCheck(answering(tc.decision), namedCheck)
			g.Expect(w.Code).To(Equal(tc.status))
			g.Expect(w.Header().Get(answer.HeaderRetryAfter)).To(Equal(tc.retryAfter))
			g.Expect(w.Header().Get(answer.HeaderDegraded)).To(Equal(strings.ToLower(string(tc.decision.Degraded))))
			if tc.status == 200 {
				g.Expect(w.Header().Get(answer.HeaderContentType)).To(Equal(answer.TypeJSON))
				return
			}
			p := decodeProblem(g, w)
			seconds := ""
			if p.RetryAfter > 0 {
				seconds = strconv.FormatInt(p.RetryAfter, 10)
			}
			g.Expect(seconds).To(Equal(tc.retryAfter))
			g.Expect(p.Context.RetryAfter).To(Equal(p.RetryAfter))
			if p.RetryAfter == 0 {
				g.Expect(w.Body.String()).NotTo(Or(ContainSubstring(`"retryAfter":`), ContainSubstring("context")))
			}
		})
	}
}

func TestDetailContainsMessageAndWait(t *testing.T) {
	tests := map[string]struct {
		message string
		wait    time.Duration
		want    string
	}{
		"no full stop":        {"Slow down", 12 * time.Second, "Slow down. Try again in 12 seconds."},
		"a full stop":         {"Slow down.", time.Minute, "Slow down. Try again in 60 seconds."},
		"an exclamation mark": {"Slow down! ", time.Minute, "Slow down! Try again in 60 seconds."},
		"ten minutes":         {"Slow down.", 10 * time.Minute, "Slow down. Try again in 600 seconds."},
		"minutes, rounded up": {"Slow down.", 10*time.Minute + time.Second, "Slow down. Try again in 11 minutes."},
		"two hours":           {"Slow down.", 2 * time.Hour, "Slow down. Try again in 2 hours."},
		"hours, rounded up":   {"Slow down.", 2*time.Hour + time.Second, "Slow down. Try again in 3 hours."},
		"days":                {"Slow down.", 48 * time.Hour, "Slow down. Try again in 2 days."},
		"one second":          {"Slow down.", time.Millisecond, "Slow down. Try again in 1 second."},
		"no wait":             {"Slow down", 0, "Slow down."},
		"no message":          {"", 0, "Too Many Requests."},
		"not escaped":         {"A < B & C", 0, "A < B & C."},
		"a placeholder":       {"100%d", time.Second, "100%d. Try again in 1 second."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := sendCheck(answering(limiter.Decision{Denial: plan.Denial{Message: tc.message}, RetryAfter: tc.wait}), namedCheck)
			p := decodeProblem(g, w)
			g.Expect(p.Detail).To(Equal(tc.want))
			g.Expect(p.Code).To(Equal("RateLimited"))
		})
	}
}

func TestErrorsOfTheEngine(t *testing.T) {
	tests := map[string]struct {
		err         error
		status      int
		code, field string
		retryAfter  string
	}{
		"unknown policy":      {&limiter.UnknownPolicyError{Policy: "shop/login"}, 404, "UnknownPolicy", "policies[1]", ""},
		"unknown, not named":  {&limiter.UnknownPolicyError{Policy: "x/y"}, 404, "UnknownPolicy", "policies", ""},
		"field of the engine": {fmt.Errorf("decide: %w", &limiter.FieldError{Field: "key", Problem: "has one part too many"}), 400, "InvalidRequest", "key", ""},
		"not ready":           {limiter.ErrNotReady, 503, "NotReady", "", "1"},
		"unexpected":          {errors.New("secret of the server"), 500, "InternalError", "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := sendCheck(failing(tc.err), namedCheck)
			g.Expect(w.Code).To(Equal(tc.status))
			p := decodeProblem(g, w)
			g.Expect(p.Code).To(Equal(tc.code))
			g.Expect(p.Field).To(Equal(tc.field))
			g.Expect(w.Header().Get(answer.HeaderRetryAfter)).To(Equal(tc.retryAfter))
			g.Expect(w.Body.String()).NotTo(ContainSubstring("secret"))
		})
	}
}

func TestCheckOfACallerThatHungUp(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, pathCheck, strings.NewReader(namedCheck))
	newHandler(failing(context.Canceled)).ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(499))
	g.Expect(decodeProblem(g, w).Code).To(Equal("ClientClosedRequest"))
}

// An answer is built in a reused buffer, which must not leak into the next answer.
func TestAnswersAreIndependent(t *testing.T) {
	g := NewWithT(t)
	full := answering(limiter.Decision{
		Policy: "a/b", Limit: "c", RetryAfter: time.Hour,
		Limits: make([]limiter.LimitState, 256),
	})
	for range 10 {
		g.Expect(sendCheck(full, namedCheck).Code).To(Equal(429))
		var v answer.DecisionBody
		g.Expect(json.Unmarshal(sendCheck(&fakeEngine{}, namedCheck).Body.Bytes(), &v)).To(Succeed())
		g.Expect(v).To(Equal(answer.DecisionBody{Allowed: true, Reason: limiter.ReasonAllowed, Limits: []answer.LimitState{}, Revision: 7}))
	}
}

func TestWindowsAreGoDurations(t *testing.T) {
	g := NewWithT(t)
	for millis, want := range map[int64]string{
		1: "1ms", 1_000: "1s", 90_000: "1m30s", 5_400_000: "1h30m", 720 * 3_600_000: "720h", 3_661_001: "1h1m1s1ms",
	} {
		g.Expect(plan.FormatMillis(millis)).To(Equal(want))
		parsed, err := time.ParseDuration(want)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(parsed.Milliseconds()).To(Equal(millis))
	}
}
