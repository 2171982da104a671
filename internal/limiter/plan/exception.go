// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds of exceptions. The schema of the resource has the same bounds.
const (
	// MaxReason is the length of the longest reason of an exception, in characters.
	MaxReason = 1024
	// maxExceptionBytes is the size of the largest encoding of an Exception: 8 parts of a key and a reason, where each
	// character may take 6 bytes in JSON.
	maxExceptionBytes = 64 << 10
)

// Exception is the compiled, immutable form of one RateLimitException: other numbers, or none, for one key of a policy until
// a time. The encoding is stored in the registry.
type Exception struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`

	// Policy is the name of a policy in the same Namespace.
	Policy string `json:"policy"`
	// Key has the parts of the key; none for a policy with a shared budget.
	Key []string `json:"key,omitempty"`
	// UntilMillis is when the exception ends, in milliseconds since 1970 by the clock of Redis.
	UntilMillis int64 `json:"untilMillis"`
	// Action is ActionLimit or ActionAllow.
	Action Action `json:"action"`
	// Limits are the limits that change, with ActionLimit.
	Limits []ExceptionLimit `json:"limits,omitempty"`
	// Reason is for people.
	Reason string `json:"reason,omitempty"`
}

// ExceptionLimit is other numbers of one limit; 0 inherits.
type ExceptionLimit struct {
	Name      string `json:"name"`
	Threshold int64  `json:"threshold,omitempty"`
	Burst     int64  `json:"burst,omitempty"`
}

// ID returns "exception:<namespace>/<name>".
func (e *Exception) ID() string { return IDOf(KindException, e.Namespace, e.Name) }

// Source implements Record.
func (e *Exception) Source() (uid string, generation int64) { return e.UID, e.Generation }

// PolicyID returns the ID of the plan that the exception changes.
func (e *Exception) PolicyID() string { return IDOf(KindPlan, e.Namespace, e.Policy) }

// Until returns when the exception ends, by the clock of Redis, in UTC.
func (e *Exception) Until() time.Time { return time.UnixMilli(e.UntilMillis).UTC() }

// Validate implements Record. It cannot check whether the policy has the limits and the key.
func (e *Exception) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !isName(e.Namespace) || !isName(e.Name) || !isName(e.Policy) {
		fail("namespace %q, name %q and policy %q must be lower-case DNS names", e.Namespace, e.Name, e.Policy)
	}
	if len(e.Key) > MaxKeyParts || slices.Contains(e.Key, "") {
		fail("key must have at most %d parts, none of them empty", MaxKeyParts)
	}
	if e.UntilMillis <= 0 {
		fail("untilMillis must be positive")
	}
	if longerThan(e.Reason, MaxReason) {
		fail("reason is longer than %d characters", MaxReason)
	}
	requireOneOf(fail, "action", e.Action, ActionLimit, ActionAllow)
	if (e.Action == ActionLimit) != (len(e.Limits) > 0) {
		fail("action Limit needs limits and Allow must have none, got action %q and %d limits", e.Action, len(e.Limits))
	}
	e.validateLimits(fail)
	return errors.Join(errs...)
}

func (e *Exception) validateLimits(fail func(string, ...any)) {
	if len(e.Limits) > MaxLimits {
		fail("%d limits, at most %d", len(e.Limits), MaxLimits)
	}
	for i, l := range e.Limits {
		if !isName(l.Name) || slices.ContainsFunc(e.Limits[:i], func(o ExceptionLimit) bool { return o.Name == l.Name }) {
			fail("limits[%d].name %q must be a lower-case DNS name used once", i, l.Name)
		}
		if l.Threshold < 0 || l.Burst < 0 || l.Threshold == 0 && l.Burst == 0 {
			fail("limits[%d] needs a positive threshold or burst", i)
		}
		if l.Threshold > MaxCost || l.Burst > MaxThreshold {
			fail("limits[%d] has threshold %d and burst %d, at most %d and %d", i, l.Threshold, l.Burst, int64(MaxCost), MaxThreshold)
		}
	}
}

func (e *Exception) sizeLimit() int { return maxExceptionBytes }
