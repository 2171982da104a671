// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan holds the compiled, immutable form of rate-limit policies and
// the index that finds the plans of a request.
//
// A plan is the only thing the two halves of Weir share: internal/compile
// makes it from a RateLimitPolicy, the decision half reads it. The package
// therefore imports nothing but the standard library and knows neither
// Kubernetes nor Redis. A plan is never changed after it was built, so it may
// be read by any number of goroutines without a lock.
package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Bounds of a plan. The schema of the resource states the same bounds to
// users; here they guard the decision half against a corrupt payload.
const (
	// MaxLimits is the largest number of limits in one plan.
	MaxLimits = 16
	// MaxKeyParts is the largest number of key parts in one plan.
	MaxKeyParts = 8
	// MaxMatches is the largest number of matches in one plan.
	MaxMatches = 16
	// MaxPatterns is the largest number of hosts, and of paths, in one match.
	MaxPatterns = 32
	// MaxMethods is the largest number of methods in one match.
	MaxMethods = 16
	// MaxEntries is the largest number of descriptor entries in one match.
	MaxEntries = 16
	// MaxText is the length of the longest domain, and of the longest key and value
	// of a descriptor entry, in characters.
	MaxText = 255
	// MaxThreshold is the largest threshold and the largest cost, in units.
	MaxThreshold = 1<<31 - 1
	// MaxLogThreshold is the largest threshold of a SlidingLog limit, in
	// units: its state grows with every admitted check.
	MaxLogThreshold = 100_000
	// MaxWindow is the longest window and the longest block.
	MaxWindow = 720 * time.Hour
	// MaxRefill is the longest time in which a burst may come back: a hundred
	// years. Beyond, times to wait would not fit a time.Duration.
	MaxRefill = 100 * 365 * 24 * time.Hour
	// MaxOverrides is the largest number of overrides in one plan.
	MaxOverrides = 64
	// MaxSelected is the largest number of keys, and of networks, that one
	// override selects.
	MaxSelected = 256
	// MaxExpression is the length of the longest expression, in characters.
	MaxExpression = 1024
)

// Mode says what a plan's verdict does to the caller.
type Mode string

// The modes of a plan.
const (
	ModeEnforce  Mode = "Enforce"
	ModeShadow   Mode = "Shadow"
	ModeDisabled Mode = "Disabled"
)

// Counting says which checks spend.
type Counting string

// The ways of counting.
const (
	CountAdmitted Counting = "Admitted"
	CountAttempts Counting = "Attempts"
)

// DenyWhen says whether the threshold itself still passes.
type DenyWhen string

// The two meanings of a threshold.
const (
	ThresholdExceeded DenyWhen = "ThresholdExceeded"
	ThresholdReached  DenyWhen = "ThresholdReached"
)

// OnMissingKey says what an absent or empty key part does.
type OnMissingKey string

// The answers to a missing key part.
const (
	MissingKeyShare OnMissingKey = "Share"
	MissingKeySkip  OnMissingKey = "Skip"
	MissingKeyDeny  OnMissingKey = "Deny"
)

// FailureMode says what happens while Redis cannot answer in time.
type FailureMode string

// The failure modes a plan may hold.
const (
	FailOpen   FailureMode = "Open"
	FailClosed FailureMode = "Closed"
)

// Plan is one compiled policy.
type Plan struct {
	Namespace    string       `json:"namespace"`
	Name         string       `json:"name"`
	UID          string       `json:"uid,omitempty"`
	Generation   int64        `json:"generation,omitempty"`
	Mode         Mode         `json:"mode"`
	Matches      []Match      `json:"matches,omitempty"`
	Key          []KeyPart    `json:"key,omitempty"`
	OnMissingKey OnMissingKey `json:"onMissingKey"`
	Limits       []Limit      `json:"limits"`
	Counting     Counting     `json:"counting"`
	DenyWhen     DenyWhen     `json:"denyWhen"`
	Overrides    []Override   `json:"overrides,omitempty"`
	FailureMode  FailureMode  `json:"failureMode"`
	Denial       Denial       `json:"denial"`
}

// Denial is what a refused caller is told.
type Denial struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ID returns "<namespace>/<name>", the name callers use.
func (p *Plan) ID() string { return p.Namespace + "/" + p.Name }

// Validate checks the invariants the decision half relies on and returns
// every violation, joined. Plans made by internal/compile hold them by
// construction; Validate guards against payloads from elsewhere.
func (p *Plan) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !isName(p.Namespace) || !isName(p.Name) {
		fail("namespace %q and name %q must be lower-case DNS names", p.Namespace, p.Name)
	}
	oneOf(fail, "mode", p.Mode, ModeEnforce, ModeShadow, ModeDisabled)
	oneOf(fail, "onMissingKey", p.OnMissingKey, MissingKeyShare, MissingKeySkip, MissingKeyDeny)
	oneOf(fail, "counting", p.Counting, CountAdmitted, CountAttempts)
	oneOf(fail, "denyWhen", p.DenyWhen, ThresholdExceeded, ThresholdReached)
	oneOf(fail, "failureMode", p.FailureMode, FailOpen, FailClosed)
	p.validateMatches(fail)
	p.validateKey(fail)
	p.validateLimits(fail)
	p.validateOverrides(fail)
	return errors.Join(errs...)
}

func oneOf[T ~string](fail func(string, ...any), field string, got T, known ...T) {
	if slices.Contains(known, got) {
		return
	}
	fail("%s %q is not one of %q", field, got, known)
}

// exceeds reports whether s has more than so many characters.
func exceeds(s string, characters int) bool { return utf8.RuneCountInString(s) > characters }

// isName reports whether s may stand in a Redis key between separators
// without escaping: lower-case letters, digits, '-' and '.'.
func isName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
