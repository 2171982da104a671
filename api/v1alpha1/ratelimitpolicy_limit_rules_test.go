// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import "strings"

// limitRules are the rules of limits.
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
	"an unknown algorithm": {
		good:    limits(`{name: a, algorithm: GCRA, threshold: 1, window: 1s}`),
		bad:     limits(`{name: a, algorithm: LeakyBucket, threshold: 1, window: 1s}`),
		field:   "spec.limits[0].algorithm",
		message: "Unsupported value",
	},
	"a threshold of 0": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 0, window: 1s}`),
		field:   "spec.limits[0].threshold",
		message: "should be greater than or equal to 1",
	},
	"a threshold above 10^12": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1000000000000, window: 1s}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1000000000001, window: 1s}`),
		field:   "spec.limits[0].threshold",
		message: "should be less than or equal to 1000000000000",
	},
	"a threshold of 2^31 for another algorithm": {
		good:    limits(`{name: a, algorithm: TokenBucket, threshold: 2147483647, window: 1s}`),
		bad:     limits(`{name: a, algorithm: TokenBucket, threshold: 2147483648, window: 1s}`),
		field:   "spec.limits[0].threshold",
		message: "threshold must be at most 2147483647 unless algorithm is FixedWindow",
	},
	"a threshold too large for a log": {
		good:    limits(`{name: a, algorithm: SlidingLog, threshold: 100000, window: 1s}`),
		bad:     limits(`{name: a, algorithm: SlidingLog, threshold: 100001, window: 1s}`),
		field:   "spec.limits[0].threshold",
		message: "threshold must be at most 100000 when algorithm is SlidingLog",
	},
	"neither window nor calendar": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Day}}`, `{name: b, algorithm: FixedWindow, threshold: 1, window: 1s}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1}`),
		field:   "spec.limits[0]",
		message: "exactly one of window and calendar must be set",
	},
	"window and calendar": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Hour, timeZone: America/Argentina/ComodRivadavia}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Day}, window: 1s}`),
		field:   "spec.limits[0]",
		message: "exactly one of window and calendar must be set",
	},
	"a calendar for another algorithm": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Day}}`),
		bad:     limits(`{name: a, algorithm: SlidingWindow, threshold: 1, calendar: {period: Day}}`),
		field:   "spec.limits[0].calendar",
		message: "calendar needs algorithm FixedWindow",
	},
	"an unknown period": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Month}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Year}}`),
		field:   "spec.limits[0].calendar.period",
		message: "Unsupported value",
	},
	"a calendar without a period": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Month, timeZone: Europe/Berlin}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {timeZone: Europe/Berlin}}`),
		field:   "spec.limits[0].calendar.period",
		message: "Required value",
	},
	"startWeekday for another period": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Week, startWeekday: Sunday}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Month, startWeekday: Sunday}}`),
		field:   "spec.limits[0].calendar.startWeekday",
		message: "startWeekday needs period Week",
	},
	"an unknown weekday": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Week, startWeekday: Monday}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Week, startWeekday: Mon}}`),
		field:   "spec.limits[0].calendar.startWeekday",
		message: "Unsupported value",
	},
	"startDay for another period": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Month, startDay: 15}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Week, startDay: 1}}`),
		field:   "spec.limits[0].calendar.startDay",
		message: "startDay needs period Month",
	},
	"a startDay of 29": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Month, startDay: 28}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Month, startDay: 29}}`),
		field:   "spec.limits[0].calendar.startDay",
		message: "should be less than or equal to 28",
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
	"a window below 1ms": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1ms}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 0ms}`),
		field:   "spec.limits[0].window",
		message: "window must be between 1ms and 720h",
	},
	"a window above 720h": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 720h}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 720h1ms}`),
		field:   "spec.limits[0].window",
		message: "window must be between 1ms and 720h",
	},
	"a bucketed window below 2ms": {
		good:    limits(`{name: a, algorithm: SlidingWindow, threshold: 1, window: 2ms}`),
		bad:     limits(`{name: a, algorithm: SlidingWindow, threshold: 1, window: 1ms}`),
		field:   "spec.limits[0].window",
		message: "window must be at least 2ms when algorithm is SlidingWindow or Suppressed",
	},
	"burst for an algorithm without one": {
		good: limits(
			`{name: a, algorithm: TokenBucket, threshold: 1, window: 1s, burst: 5}`,
			`{name: b, algorithm: GCRA, threshold: 1, window: 1s, burst: 5}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, burst: 5}`),
		field:   "spec.limits[0].burst",
		message: "burst needs algorithm TokenBucket or GCRA",
	},
	"a burst of 0": {
		good:    limits(`{name: a, algorithm: GCRA, threshold: 1, window: 1s, burst: 1}`),
		bad:     limits(`{name: a, algorithm: GCRA, threshold: 1, window: 1s, burst: 0}`),
		field:   "spec.limits[0].burst",
		message: "should be greater than or equal to 1",
	},
	"bucket for an algorithm without one": {
		good: limits(
			`{name: a, algorithm: SlidingWindow, threshold: 1, window: 1s, bucket: 100ms}`,
			`{name: b, algorithm: Suppressed, threshold: 1, window: 1s, bucket: 100ms}`),
		bad:     limits(`{name: a, algorithm: SlidingLog, threshold: 1, window: 1s, bucket: 100ms}`),
		field:   "spec.limits[0].bucket",
		message: "bucket needs algorithm SlidingWindow or Suppressed",
	},
	"a bucket above half the window": {
		good:    limits(`{name: a, algorithm: SlidingWindow, threshold: 1, window: 1h0m1s, bucket: 30m500ms}`),
		bad:     limits(`{name: a, algorithm: SlidingWindow, threshold: 1, window: 1h0m1s, bucket: 30m501ms}`),
		field:   "spec.limits[0].bucket",
		message: "bucket must be between a thousandth and a half of window",
	},
	"a bucket below a thousandth of the window": {
		good:    limits(`{name: a, algorithm: Suppressed, threshold: 1, window: 1h, bucket: 3600ms}`),
		bad:     limits(`{name: a, algorithm: Suppressed, threshold: 1, window: 1h, bucket: 3599ms}`),
		field:   "spec.limits[0].bucket",
		message: "bucket must be between a thousandth and a half of window",
	},
	"hardLimitPercent for another algorithm": {
		good:    limits(`{name: a, algorithm: Suppressed, threshold: 1, window: 1s, hardLimitPercent: 101}`),
		bad:     limits(`{name: a, algorithm: SlidingWindow, threshold: 1, window: 1s, hardLimitPercent: 101}`),
		field:   "spec.limits[0].hardLimitPercent",
		message: "hardLimitPercent needs algorithm Suppressed",
	},
	"a hardLimitPercent of 100": {
		good:    limits(`{name: a, algorithm: Suppressed, threshold: 1, window: 1s, hardLimitPercent: 101}`),
		bad:     limits(`{name: a, algorithm: Suppressed, threshold: 1, window: 1s, hardLimitPercent: 100}`),
		field:   "spec.limits[0].hardLimitPercent",
		message: "should be greater than or equal to 101",
	},
	"a hardLimitPercent of 1001": {
		good:    limits(`{name: a, algorithm: Suppressed, threshold: 1, window: 1s, hardLimitPercent: 1000}`),
		bad:     limits(`{name: a, algorithm: Suppressed, threshold: 1, window: 1s, hardLimitPercent: 1001}`),
		field:   "spec.limits[0].hardLimitPercent",
		message: "should be less than or equal to 1000",
	},
	"a warnAt of 0": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, warnAt: 1}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, warnAt: 0}`),
		field:   "spec.limits[0].warnAt",
		message: "should be greater than or equal to 1",
	},
	"a warnAt of 101": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, warnAt: 100}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, warnAt: 101}`),
		field:   "spec.limits[0].warnAt",
		message: "should be less than or equal to 100",
	},
	"a block above 720h": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDuration: 720h}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDuration: 721h}`),
		field:   "spec.limits[0].blockDuration",
		message: "blockDuration must be between 1ms and 720h",
	},
	"blockDuration beside blockDurations": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 1m, 2m], escalationWindow: 1h}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1m], escalationWindow: 1h, blockDuration: 1m}`),
		field:   "spec.limits[0].blockDurations",
		message: "blockDurations and blockDuration must not both be set",
	},
	"blockDurations without escalationWindow": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1ms], escalationWindow: 1ms}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1m]}`),
		field:   "spec.limits[0].escalationWindow",
		message: "escalationWindow must be set with blockDurations, and only then",
	},
	"escalationWindow without blockDurations": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [720h], escalationWindow: 720h}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDuration: 1m, escalationWindow: 1h}`),
		field:   "spec.limits[0].escalationWindow",
		message: "escalationWindow must be set with blockDurations, and only then",
	},
	"blocks that become shorter": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [90s, 2m], escalationWindow: 1h}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [120s, 1m59s], escalationWindow: 1h}`),
		field:   "spec.limits[0].blockDurations",
		message: "blockDurations must not become shorter",
	},
	"one of blockDurations above 720h": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 720h], escalationWindow: 1h}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 721h], escalationWindow: 1h}`),
		field:   "spec.limits[0].blockDurations",
		message: "blockDurations must be between 1ms and 720h",
	},
	"an escalationWindow above 720h": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1m], escalationWindow: 720h}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1m], escalationWindow: 721h}`),
		field:   "spec.limits[0].escalationWindow",
		message: "escalationWindow must be between 1ms and 720h",
	},
	"more than 8 blockDurations": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 1m, 1m, 1m, 1m, 1m, 1m, 1m], escalationWindow: 1h}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 1m, 1m, 1m, 1m, 1m, 1m, 1m, 1m], escalationWindow: 1h}`),
		field:   "spec.limits[0].blockDurations",
		message: "must have at most 8 items",
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
}
