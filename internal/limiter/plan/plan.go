// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a plan. The schema of the resource has the same bounds; here they protect the
// decision half from a corrupt payload.
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
	// MaxEntries is the largest number of descriptor entries, of headers, and of query parameters in one match.
	MaxEntries = 16
	// MaxExcept is the largest number of values and prefixes that one entry of a match excludes.
	MaxExcept = 64
	// MaxText is the length of the longest domain, and of the longest key and value
	// of a descriptor entry, in characters.
	MaxText = 255
	// MaxValue is the length of the longest value of a header or query parameter in a match, in characters.
	MaxValue = 1024
	// MaxCost is the largest cost of a check, in units: a million dollars in millionths.
	MaxCost = 1_000_000_000_000
	// MaxFixedWindowThreshold is the largest threshold of a FixedWindow limit, in units. No
	// limit admits more at once.
	MaxFixedWindowThreshold = MaxCost
	// MaxThreshold is the largest threshold of a limit that uses another algorithm but
	// SlidingLog, and the largest burst, in units.
	MaxThreshold = 1<<31 - 1
	// MaxLogThreshold is the largest threshold of a SlidingLog limit, in
	// units: its state grows with every admitted check.
	MaxLogThreshold = 100_000
	// MaxWindow is the longest window of all algorithms but FixedWindow, and the longest block.
	MaxWindow = 720 * time.Hour
	// MaxFixedWindow is the longest window of FixedWindow.
	MaxFixedWindow = 366 * 24 * time.Hour
	// MaxBlockLengths is the largest number of lengths of blocks in one limit.
	MaxBlockLengths = 8
	// MaxRefill is the longest time in which a burst may be refilled: a hundred years.
	// Above that, times to wait would overflow a time.Duration.
	MaxRefill = 100 * 365 * 24 * time.Hour
	// MaxOverrides is the largest number of overrides in one plan.
	MaxOverrides = 64
	// MaxSelected is the largest number of keys, and of networks, that one
	// override selects.
	MaxSelected = 256
	// MaxExpression is the length of the longest expression, in characters.
	MaxExpression = 1024
)

// Mode is the effect of a plan's verdict on the caller.
type Mode string

// The modes of a plan.
const (
	ModeEnforce  Mode = "Enforce"
	ModeShadow   Mode = "Shadow"
	ModeDisabled Mode = "Disabled"
)

// Counting selects which checks spend units.
type Counting string

// The values of Counting.
const (
	CountAdmitted Counting = "Admitted"
	CountAttempts Counting = "Attempts"
)

// DenyWhen determines whether the unit that reaches the threshold is still admitted.
type DenyWhen string

// The two meanings of a threshold.
const (
	ThresholdExceeded DenyWhen = "ThresholdExceeded"
	ThresholdReached  DenyWhen = "ThresholdReached"
)

// OnMissingKey is the effect of an absent or empty key part.
type OnMissingKey string

// The values of OnMissingKey.
const (
	MissingKeyShare OnMissingKey = "Share"
	MissingKeySkip  OnMissingKey = "Skip"
	MissingKeyDeny  OnMissingKey = "Deny"
)

// FailureMode determines the decision while Redis does not answer in time.
type FailureMode string

// The failure modes a plan may hold.
const (
	FailOpen   FailureMode = "Open"
	FailClosed FailureMode = "Closed"
	FailLocal  FailureMode = "Local"
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
	Reservations Reservations `json:"reservations,omitzero"`
	Slices       Slices       `json:"slices,omitzero"`
	LateCharges  LateCharges  `json:"lateCharges,omitzero"`
	Overrides    []Override   `json:"overrides,omitempty"`
	// Candidates are numbers of limits that checks are judged by too, and that deny nothing.
	Candidates  []LimitOverride `json:"candidates,omitempty"`
	FailureMode FailureMode     `json:"failureMode"`
	Denial      Denial          `json:"denial"`
}

// ID returns "<namespace>/<name>", the name callers use.
func (p *Plan) ID() string { return p.Namespace + "/" + p.Name }

// CompareIDs compares the IDs of two plans without making them.
func CompareIDs(a, b *Plan) int {
	common := min(len(a.Namespace), len(b.Namespace))
	if c := strings.Compare(a.Namespace[:common], b.Namespace[:common]); c != 0 {
		return c
	}
	switch {
	case len(a.Namespace) > common:
		return cmp.Compare(a.Namespace[common], '/')
	case len(b.Namespace) > common:
		return cmp.Compare('/', b.Namespace[common])
	default:
		return strings.Compare(a.Name, b.Name)
	}
}

// Source implements Record.
func (p *Plan) Source() (uid string, generation int64) { return p.UID, p.Generation }

func (p *Plan) sizeLimit() int { return MaxEncodedBytes }

// Validate implements Record. internal/compile never violates an invariant; Validate is for payloads from
// elsewhere.
func (p *Plan) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !isName(p.Namespace) || !isName(p.Name) {
		fail("namespace %q and name %q must be lower-case DNS names", p.Namespace, p.Name)
	}
	requireOneOf(fail, "mode", p.Mode, ModeEnforce, ModeShadow, ModeDisabled)
	requireOneOf(fail, "onMissingKey", p.OnMissingKey, MissingKeyShare, MissingKeySkip, MissingKeyDeny)
	requireOneOf(fail, "counting", p.Counting, CountAdmitted, CountAttempts)
	requireOneOf(fail, "denyWhen", p.DenyWhen, ThresholdExceeded, ThresholdReached)
	requireOneOf(fail, "failureMode", p.FailureMode, FailOpen, FailClosed, FailLocal)
	p.validateMatches(fail)
	p.validateKey(fail)
	p.validateLimits(fail)
	p.validateReservations(fail)
	p.validateDenial(fail)
	p.validateLateCharges(fail)
	p.validateOverrides(fail)
	p.validateChanges(fail, "candidates", p.Candidates)
	if len(errs) == 0 {
		p.validateSlices(fail)
	}
	return errors.Join(errs...)
}

// requireWithin rejects a number that is not in smallest..largest.
func requireWithin[T ~int | ~int64](fail func(string, ...any), field string, n, smallest, largest T) {
	if n < smallest || n > largest {
		fail("%s %d is out of bounds", field, n)
	}
}

func requireOneOf[T ~string](fail func(string, ...any), field string, got T, known ...T) {
	if slices.Contains(known, got) {
		return
	}
	fail("%s %q is not one of %q", field, got, known)
}

// longerThan reports whether s has more than the given number of characters.
func longerThan(s string, characters int) bool { return utf8.RuneCountInString(s) > characters }

// isName reports whether s needs no escaping between the separators of a Redis key:
// lower-case letters, digits, '-' and '.'.
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
