// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testplan builds plans for the tests of plans and of their index.
package testplan

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Valid returns a valid plan.
func Valid() *plan.Plan {
	return &plan.Plan{
		Namespace: "shop", Name: "login", UID: "u", Generation: 3,
		Mode: plan.ModeEnforce, OnMissingKey: plan.MissingKeyShare, Counting: plan.CountAdmitted,
		DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailOpen,
		Denial:  plan.Denial{Code: "RateLimited", Message: "<Slow & down>"},
		Matches: []plan.Match{{Hosts: []string{"a.example"}, Paths: []string{"/x/*"}}},
		Key:     []plan.KeyPart{{Type: plan.KeyHeader, Header: "x-api-key"}},
		Limits:  []plan.Limit{{Name: "burst", Algorithm: plan.SlidingLog, Threshold: 5, WindowMillis: 60_000}},
	}
}

// Wanted returns what a match wants: "key", "key=value", or "key=prefix*". Exceptions follow after exclamation marks.
func Wanted(entries ...string) (all []plan.EntryMatch) {
	for _, e := range entries {
		key, rest, _ := strings.Cut(e, "=")
		texts := strings.Split(rest, "!")
		w := plan.EntryMatch{Key: key}
		w.Value, w.Prefix = strings.CutSuffix(texts[0], "*")
		for _, text := range texts[1:] {
			if prefix, open := strings.CutSuffix(text, "*"); open {
				w.ExceptPrefixes = append(w.ExceptPrefixes, prefix)
			} else {
				w.Except = append(w.Except, text)
			}
		}
		all = append(all, w)
	}
	return all
}

// Descriptor returns a descriptor with the given "key=value" entries.
func Descriptor(entries ...string) plan.Descriptor {
	var d plan.Descriptor
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		d = append(d, plan.Entry{Key: key, Value: value})
	}
	return d
}

// MatchEntries returns a match of descriptors: see Wanted.
func MatchEntries(entries ...string) plan.Match {
	return plan.Match{Descriptors: Wanted(entries...)}
}

// Words returns n words that contain consecutive numbers.
func Words(n, from int, format string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, from+i))
	}
	return all
}
