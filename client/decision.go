// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Reason is why a decision allows or denies.
type Reason string

// The reasons of Weir, and NoDecision.
const (
	ReasonAllowed          Reason = "Allowed"
	ReasonNoPolicy         Reason = "NoPolicy"
	ReasonDisabled         Reason = "Disabled"
	ReasonExempt           Reason = "Exempt"
	ReasonStoreUnavailable Reason = "StoreUnavailable" // failureMode of the policy decided
	// ReasonExpressionsOverBudget is from failureMode, too: there was no time for the expressions of the policy.
	ReasonExpressionsOverBudget Reason = "ExpressionsOverBudget"
	ReasonLimitExceeded         Reason = "LimitExceeded"
	ReasonSuppressed            Reason = "Suppressed"
	ReasonBlocked               Reason = "Blocked"
	ReasonCostExceedsThreshold  Reason = "CostExceedsThreshold"
	ReasonTooManyReservations   Reason = "TooManyReservations"
	ReasonDeniedByOverride      Reason = "DeniedByOverride"
	ReasonMissingKey            Reason = "MissingKey"
	// ReasonNoDecision is not from Weir: the FailMode of the client decided.
	ReasonNoDecision Reason = "NoDecision"
)

// Decision is whether a request may pass.
type Decision struct {
	Allowed bool
	Reason  Reason
	// Status is the status of a response to a denied request: 400, 403, 429 or 503; 0 if Allowed.
	Status int
	// Policy, Limit and Override are what denies; empty if nothing does, Limit also for a block
	// that was set by hand.
	Policy, Limit, Override string
	// Code is the code of a denial, "RateLimited" or "TooManyAttempts", from the policy.
	Code string
	// Detail explains a denial to people.
	Detail string
	// RetryAfter is the time until the same check is admitted, in whole seconds; 0 if it is
	// allowed or waiting does not help.
	RetryAfter time.Duration
	// WaitsFor is "Reservations" if only open reservations leave no room, and "Slices" if only units do
	// that replicas of Weir hold in advance: they can make room at any time. Else it is empty.
	WaitsFor string
	// FromSlice is true if a replica of Weir decided by itself. The numbers of Limits may then be as old as
	// spec.slices.maxAge of the policy.
	FromSlice bool
	// Limits are the limits that were evaluated.
	Limits []Limit
	// Revision is the revision of the policies.
	Revision int64
	// Header has the headers for the response to the request: RateLimit, RateLimit-Policy,
	// Retry-After and X-RateLimit-*, as far as Weir sent them.
	Header http.Header
	// Degraded is how Weir decided while Redis did not answer: "open", "closed" or "local"; empty
	// if it did answer.
	Degraded string
}

// Limit is the state of a limit after the check.
type Limit struct {
	Policy, Limit string
	// Override is the override of the policy that selects the key, or empty; Group is the group of keys by which it does, or
	// empty. Exception is the RateLimitException whose numbers apply, or empty.
	Override, Group, Exception string
	Allowed                    bool
	// Used, Threshold and Remaining are units. Held is the part of Used that open reservations hold.
	Used, Threshold, Remaining, Held int64
	// RetryAfter is the time until this limit admits the same check; 0 if it does, or waiting
	// does not help.
	RetryAfter time.Duration
	// ResetAfter is the time until Used is 0.
	ResetAfter time.Duration
	// Shadow limits are counted and never deny.
	Shadow bool
}

// errNoDecision is the error of a document without a decision.
var errNoDecision = errors.New("weir: the answer has no decision")

// UnmarshalJSON reads the document of a decision: the body of POST /v1/check, or of a denial.
// Headers and Degraded are not part of it.
func (d *Decision) UnmarshalJSON(text []byte) error {
	type fields Decision // without this method
	var document struct {
		fields
		Allowed    *bool
		RetryAfter int64
		Limits     []struct {
			Limit
			RetryAfterMs, ResetAfterMs int64
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	if document.Allowed == nil || document.Reason == "" {
		return errNoDecision
	}
	*d = Decision(document.fields)
	d.Allowed, d.RetryAfter = *document.Allowed, time.Duration(document.RetryAfter)*time.Second
	d.Degraded, d.Header = "", nil
	for _, l := range document.Limits {
		l.RetryAfter = time.Duration(l.RetryAfterMs) * time.Millisecond
		l.ResetAfter = time.Duration(l.ResetAfterMs) * time.Millisecond
		d.Limits = append(d.Limits, l.Limit)
	}
	return nil
}

// Without returns the decision of the mode, for a check that Weir did not decide.
func (m FailMode) Without() Decision {
	if m == Open {
		return Decision{Allowed: true, Reason: ReasonNoDecision, Header: http.Header{}}
	}
	return Decision{
		Reason: ReasonNoDecision, Status: http.StatusServiceUnavailable, Code: "Unavailable",
		Detail: "The rate limiter did not answer.", Header: http.Header{},
	}
}

// Invalid returns the denial of a request whose check Weir rejects.
func Invalid() Decision {
	return Decision{
		Reason: ReasonNoDecision, Status: http.StatusBadRequest, Code: "InvalidRequest",
		Detail: "The rate limiter cannot read the request.", Header: http.Header{},
	}
}

// responseHeaders are the headers that SetHeaders sets.
var responseHeaders = []string{
	"RateLimit", "RateLimit-Policy", "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
}

// SetHeaders sets the headers of the decision on the response to the request.
func (d Decision) SetHeaders(h http.Header) {
	for _, name := range responseHeaders {
		if value := d.Header.Get(name); value != "" {
			h.Set(name, value)
		}
	}
}
