// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

// sliced returns a spec with these slices and one more field.
func sliced(s, more string) string {
	return `{slices: ` + s + `, ` + more + `, ` + limits(`{name: a, algorithm: FixedWindow, threshold: 500, window: 1h}`)[1:]
}

// sliceRules are the rules of slices that the schema has. The others need durations, see package compile.
var sliceRules = map[string]rule{
	"slices with reservations": {
		good:    sliced(`{maxPercent: 10, maxAge: 1s}`, `mode: Enforce`),
		bad:     sliced(`{maxPercent: 10, maxAge: 1s}`, `reservations: {maxTTL: 1m}`),
		field:   "spec.slices",
		message: "slices must not be set together with reservations",
	},
	"slices of no percent": {
		good:    sliced(`{maxPercent: 1, maxAge: 1s}`, `mode: Enforce`),
		bad:     sliced(`{maxPercent: 0, maxAge: 1s}`, `mode: Enforce`),
		field:   "spec.slices.maxPercent",
		message: "should be greater than or equal to 1",
	},
	"slices of more than half": {
		good:    sliced(`{maxPercent: 50, maxAge: 1s}`, `mode: Enforce`),
		bad:     sliced(`{maxPercent: 51, maxAge: 1s}`, `mode: Enforce`),
		field:   "spec.slices.maxPercent",
		message: "should be less than or equal to 50",
	},
	"slices without a percentage": {
		good:    sliced(`{maxPercent: 50, maxAge: 1s}`, `mode: Enforce`),
		bad:     sliced(`{maxAge: 1s}`, `mode: Enforce`),
		field:   "spec.slices.maxPercent",
		message: "Required value",
	},
	"slices without an age": {
		good:    sliced(`{maxPercent: 50, maxAge: 1s}`, `mode: Enforce`),
		bad:     sliced(`{maxPercent: 50}`, `mode: Enforce`),
		field:   "spec.slices.maxAge",
		message: "Required value",
	},
	"slices of a short age": {
		good:    sliced(`{maxPercent: 50, maxAge: 500ms}`, `mode: Enforce`),
		bad:     sliced(`{maxPercent: 50, maxAge: 499ms}`, `mode: Enforce`),
		field:   "spec.slices.maxAge",
		message: "maxAge must be between 500ms and 10s",
	},
	"slices of a long age": {
		good:    sliced(`{maxPercent: 50, maxAge: 10s}`, `mode: Enforce`),
		bad:     sliced(`{maxPercent: 50, maxAge: 11s}`, `mode: Enforce`),
		field:   "spec.slices.maxAge",
		message: "maxAge must be between 500ms and 10s",
	},
}
