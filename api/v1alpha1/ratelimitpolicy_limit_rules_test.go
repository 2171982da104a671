// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import "strings"

// limitRules are the rules of limits and candidates that oneLimitRules does not show.
var limitRules = map[string]rule{
	"a policy without limits": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		bad:     `{mode: Enforce}`,
		field:   "spec.limits",
		message: "Required value",
	},
	"an empty list of limits": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		bad:     `{limits: []}`,
		field:   "spec.limits",
		message: "should have at least 1 items",
	},
	"more than 16 limits": {
		good:    limits(repeat(16, `{name: l%d, algorithm: FixedWindow, threshold: 1, window: 1s}`)),
		bad:     limits(repeat(17, `{name: l%d, algorithm: FixedWindow, threshold: 1, window: 1s}`)),
		field:   "spec.limits",
		message: "must have at most 16 items",
	},
	"two limits of one name": {
		good: limits(
			`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s}`,
			`{name: b, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		bad: limits(
			`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s}`,
			`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		field:   "spec.limits[1]",
		message: "Duplicate value",
	},
	"a name of a limit that is no DNS label": {
		good:    limits(`{name: per-minute-2, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		bad:     limits(`{name: Per_Minute, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		field:   "spec.limits[0].name",
		message: "name must be a DNS label: lower-case letters, digits and inner dashes",
	},
	"a name of a limit above 63 characters": {
		good:    limits(`{name: ` + strings.Repeat("a", 63) + `, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		bad:     limits(`{name: ` + strings.Repeat("a", 64) + `, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		field:   "spec.limits[0].name",
		message: "may not be more than 63 bytes",
	},
	"neither window nor calendar": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Day}}`, `{name: b, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1}`),
		field:   "spec.limits[0]",
		message: "exactly one of window and calendar must be set",
	},
	"a window in place of a calendar by an override": {
		good: `{overrides: [{name: o, when: a, limits: [{name: daily, threshold: 2, blockDuration: 1s}, {name: short, window: 2s}]}], ` + limits(
			`{name: daily, algorithm: FixedWindow, threshold: 5, calendar: {period: Day}}`,
			`{name: short, algorithm: FixedWindow, threshold: 5, window: 1m}`)[1:],
		bad: `{overrides: [{name: o, when: a, limits: [{name: daily, window: 2s}]}], ` + limits(
			`{name: daily, algorithm: FixedWindow, threshold: 5, calendar: {period: Day}}`)[1:],
		field:   "spec.overrides",
		message: "window of an override needs a limit with a window",
	},
	"burst for an algorithm without one": {
		good: limits(
			`{name: a, algorithm: TokenBucket, threshold: 1, window: 1s, burst: 5}`,
			`{name: b, algorithm: GCRA, threshold: 1, window: 1s, burst: 5}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, burst: 5}`),
		field:   "spec.limits[0].burst",
		message: "burst needs algorithm TokenBucket or GCRA",
	},
	"bucket for an algorithm without one": {
		good: limits(
			`{name: a, algorithm: SlidingWindow, threshold: 1, window: 1s, bucket: 100ms}`,
			`{name: b, algorithm: Suppressed, threshold: 1, window: 1s, bucket: 100ms}`),
		bad:     limits(`{name: a, algorithm: SlidingLog, threshold: 1, window: 1s, bucket: 100ms}`),
		field:   "spec.limits[0].bucket",
		message: "bucket needs algorithm SlidingWindow or Suppressed",
	},
	"counting attempts with an algorithm that cannot": {
		good:    `{counting: Attempts, ` + limits(`{name: a, algorithm: SlidingLog, threshold: 1, window: 1s}`)[1:],
		bad:     `{counting: Attempts, ` + limits(`{name: a, algorithm: GCRA, threshold: 1, window: 1s}`)[1:],
		field:   "spec.counting",
		message: "counting Attempts needs every limit to use FixedWindow, SlidingLog or SlidingWindow",
	},
	"denyWhen ThresholdReached with an algorithm that cannot": {
		good:    `{denyWhen: ThresholdReached, ` + limits(`{name: a, algorithm: FixedWindow, threshold: 2, window: 1s}`)[1:],
		bad:     `{denyWhen: ThresholdReached, ` + limits(`{name: a, algorithm: TokenBucket, threshold: 2, window: 1s}`)[1:],
		field:   "spec.denyWhen",
		message: "denyWhen ThresholdReached needs every limit to use FixedWindow, SlidingLog or SlidingWindow",
	},
	"a threshold of 1 that would deny everything": {
		good:    `{denyWhen: ThresholdReached, ` + limits(`{name: a, algorithm: FixedWindow, threshold: 2, window: 1s}`)[1:],
		bad:     `{denyWhen: ThresholdReached, ` + limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s}`)[1:],
		field:   "spec.limits",
		message: "threshold of every limit must be at least 2 when denyWhen is ThresholdReached",
	},
	"an unknown mode": {
		good:    `{mode: Shadow, ` + limits(aLimit)[1:],
		bad:     `{mode: DryRun, ` + limits(aLimit)[1:],
		field:   "spec.mode",
		message: "Unsupported value",
	},
	"a candidate threshold of 1 that would deny everything": {
		good:    `{denyWhen: ThresholdReached, limits: [{name: a, algorithm: FixedWindow, threshold: 2, window: 1s, candidate: {threshold: 2}}]}`,
		bad:     `{denyWhen: ThresholdReached, limits: [{name: a, algorithm: FixedWindow, threshold: 2, window: 1s, candidate: {threshold: 1}}]}`,
		field:   "spec.limits",
		message: "threshold of every candidate must be at least 2 when denyWhen is ThresholdReached",
	},
}
