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
)

// Bounds of a plan. The schema of the resource states the same bounds to
// users; here they guard the decision half against a corrupt payload.
const (
	// MaxLimits is the largest number of limits in one plan.
	MaxLimits = 16
	// MaxKeyParts is the largest number of key parts in one plan.
	MaxKeyParts = 8
	// MaxMatches is the largest number of match entries in one plan.
	MaxMatches = 16
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

// KeyPartType names the source of one key part.
type KeyPartType string

// The sources of key parts.
const (
	KeyHeader        KeyPartType = "Header"
	KeyRemoteAddress KeyPartType = "RemoteAddress"
	KeyPrincipal     KeyPartType = "Principal"
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

// Match is one set of request facts under which the plan applies. Every list
// that is given must hold.
type Match struct {
	Hosts   []string `json:"hosts,omitempty"`   // exact, or "*." and a suffix
	Methods []string `json:"methods,omitempty"` // exact
	Paths   []string `json:"paths,omitempty"`   // exact, or a prefix and "*"
}

// KeyPart is one source of the key, in the order the key is built.
type KeyPart struct {
	Type             KeyPartType `json:"type"`
	Header           string      `json:"header,omitempty"` // lower case
	IPv4PrefixLength int         `json:"ipv4PrefixLength,omitempty"`
	IPv6PrefixLength int         `json:"ipv6PrefixLength,omitempty"`
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
	if len(p.Matches) > MaxMatches {
		fail("%d matches, at most %d", len(p.Matches), MaxMatches)
	}
	p.validateKey(fail)
	p.validateLimits(fail)
	p.validateOverrides(fail)
	return errors.Join(errs...)
}

func (p *Plan) validateKey(fail func(string, ...any)) {
	if len(p.Key) > MaxKeyParts {
		fail("%d key parts, at most %d", len(p.Key), MaxKeyParts)
	}
	for i, part := range p.Key {
		at := fmt.Sprintf("key[%d].type", i)
		oneOf(fail, at, part.Type, KeyHeader, KeyRemoteAddress, KeyPrincipal)
		if part.IPv4PrefixLength < 0 || part.IPv4PrefixLength > 32 {
			fail("key[%d].ipv4PrefixLength %d is not in 0..32", i, part.IPv4PrefixLength)
		}
		if part.IPv6PrefixLength < 0 || part.IPv6PrefixLength > 128 {
			fail("key[%d].ipv6PrefixLength %d is not in 0..128", i, part.IPv6PrefixLength)
		}
	}
}

func oneOf[T ~string](fail func(string, ...any), field string, got T, known ...T) {
	if slices.Contains(known, got) {
		return
	}
	fail("%s %q is not one of %q", field, got, known)
}

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
