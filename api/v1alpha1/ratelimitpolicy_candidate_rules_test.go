// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

// candidateRules are the rules of candidates.
var candidateRules = map[string]rule{
	"a candidate without numbers": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 2}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, candidate: {}}`),
		field:   "spec.limits[0].candidate",
		message: "should have at least 1 properties",
	},
	"a candidate threshold of 0": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 1}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 0}}`),
		field:   "spec.limits[0].candidate.threshold",
		message: "should be greater than or equal to 1",
	},
	"a candidate threshold above 10^12": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 1000000000000}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 1000000000001}}`),
		field:   "spec.limits[0].candidate.threshold",
		message: "should be less than or equal to 1000000000000",
	},
	"a candidate threshold above 2147483647 without FixedWindow": {
		good:    limits(`{name: a, algorithm: GCRA, threshold: 1, window: 1s, candidate: {threshold: 2147483647}}`),
		bad:     limits(`{name: a, algorithm: GCRA, threshold: 1, window: 1s, candidate: {threshold: 2147483648}}`),
		field:   "spec.limits[0].candidate.threshold",
		message: "threshold of the candidate must be at most 2147483647 unless algorithm is FixedWindow",
	},
	"a candidate threshold above 100000 with SlidingLog": {
		good:    limits(`{name: a, algorithm: SlidingLog, threshold: 1, window: 1s, candidate: {threshold: 100000}}`),
		bad:     limits(`{name: a, algorithm: SlidingLog, threshold: 1, window: 1s, candidate: {threshold: 100001}}`),
		field:   "spec.limits[0].candidate.threshold",
		message: "threshold of the candidate must be at most 100000 when algorithm is SlidingLog",
	},
	"a candidate threshold of 1 that would deny everything": {
		good:    `{denyWhen: ThresholdReached, limits: [{name: a, algorithm: FixedWindow, threshold: 2, window: 1s, candidate: {threshold: 2}}]}`,
		bad:     `{denyWhen: ThresholdReached, limits: [{name: a, algorithm: FixedWindow, threshold: 2, window: 1s, candidate: {threshold: 1}}]}`,
		field:   "spec.limits",
		message: "threshold of every candidate must be at least 2 when denyWhen is ThresholdReached",
	},
	"a candidate burst without a bucket": {
		good:    limits(`{name: a, algorithm: GCRA, threshold: 1, window: 1s, candidate: {burst: 2147483647}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, candidate: {burst: 1}}`),
		field:   "spec.limits[0].candidate.burst",
		message: "burst of the candidate needs algorithm TokenBucket or GCRA",
	},
	"a candidate burst of 0": {
		good:    limits(`{name: a, algorithm: TokenBucket, threshold: 1, window: 1s, candidate: {burst: 1}}`),
		bad:     limits(`{name: a, algorithm: TokenBucket, threshold: 1, window: 1s, candidate: {burst: 0}}`),
		field:   "spec.limits[0].candidate.burst",
		message: "should be greater than or equal to 1",
	},
	"a candidate burst above 2147483647": {
		good:    limits(`{name: a, algorithm: TokenBucket, threshold: 1, window: 1s, candidate: {burst: 2147483647}}`),
		bad:     limits(`{name: a, algorithm: TokenBucket, threshold: 1, window: 1s, candidate: {burst: 2147483648}}`),
		field:   "spec.limits[0].candidate.burst",
		message: "should be less than or equal to 2147483647",
	},
	"a candidate window of a limit with a calendar": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Day}, candidate: {threshold: 2}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, calendar: {period: Day}, candidate: {window: 1h}}`),
		field:   "spec.limits[0].candidate.window",
		message: "window of the candidate needs a limit with a window",
	},
	"a candidate window above 720h": {
		good:    limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, candidate: {window: 720h}}`),
		bad:     limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: 1s, candidate: {window: 721h}}`),
		field:   "spec.limits[0].candidate.window",
		message: "window must be between 1ms and 720h",
	},
	"a candidate window too short for buckets": {
		good:    limits(`{name: a, algorithm: Suppressed, threshold: 1, window: 1s, candidate: {window: 2ms}}`),
		bad:     limits(`{name: a, algorithm: Suppressed, threshold: 1, window: 1s, candidate: {window: 1ms}}`),
		field:   "spec.limits[0].candidate.window",
		message: "window of the candidate must be at least 2ms when algorithm is SlidingWindow or Suppressed",
	},
	"a candidate window that its bucket does not divide": {
		good:    limits(`{name: a, algorithm: SlidingWindow, threshold: 1, window: 1m, bucket: 1s, candidate: {window: 2s}}`),
		bad:     limits(`{name: a, algorithm: SlidingWindow, threshold: 1, window: 1m, bucket: 1s, candidate: {window: 1s}}`),
		field:   "spec.limits[0].candidate.window",
		message: "window of the candidate must be between 2 and 1000 times bucket",
	},
}
