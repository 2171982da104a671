// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

// oneLimitRules are the rules that a single limit can break: the name of the case, the invalid field (empty for
// the whole limit), the message, and a barely valid and a barely invalid limit, from their algorithm on.
var oneLimitRules = [][5]string{
	{"an unknown algorithm", "algorithm", "Unsupported value", `GCRA, threshold: 1, window: 1s`, `LeakyBucket, threshold: 1, window: 1s`},
	{"a threshold of 0", "threshold", "should be greater than or equal to 1", `FixedWindow, threshold: 1, window: 1s`, `FixedWindow, threshold: 0, window: 1s`},
	{"a threshold above 10^12", "threshold", "should be less than or equal to 1000000000000", `FixedWindow, threshold: 1000000000000, window: 1s`, `FixedWindow, threshold: 1000000000001, window: 1s`},
	{"a threshold of 2^31 for another algorithm", "threshold", "threshold must be at most 2147483647 unless algorithm is FixedWindow", `TokenBucket, threshold: 2147483647, window: 1s`, `TokenBucket, threshold: 2147483648, window: 1s`},
	{"a threshold too large for a log", "threshold", "threshold must be at most 100000 when algorithm is SlidingLog", `SlidingLog, threshold: 100000, window: 1s`, `SlidingLog, threshold: 100001, window: 1s`},
	{"window and calendar", "", "exactly one of window and calendar must be set", `FixedWindow, threshold: 1, calendar: {period: Hour, timeZone: America/Argentina/ComodRivadavia}`, `FixedWindow, threshold: 1, calendar: {period: Day}, window: 1s`},
	{"a calendar for another algorithm", "calendar", "calendar needs algorithm FixedWindow", `FixedWindow, threshold: 1, calendar: {period: Day}`, `SlidingWindow, threshold: 1, calendar: {period: Day}`},
	{"an unknown period", "calendar.period", "Unsupported value", `FixedWindow, threshold: 1, calendar: {period: Month}`, `FixedWindow, threshold: 1, calendar: {period: Year}`},
	{"a calendar without a period", "calendar.period", "Required value", `FixedWindow, threshold: 1, calendar: {period: Month, timeZone: Europe/Berlin}`, `FixedWindow, threshold: 1, calendar: {timeZone: Europe/Berlin}`},
	{"startWeekday for another period", "calendar.startWeekday", "startWeekday needs period Week", `FixedWindow, threshold: 1, calendar: {period: Week, startWeekday: Sunday}`, `FixedWindow, threshold: 1, calendar: {period: Month, startWeekday: Sunday}`},
	{"an unknown weekday", "calendar.startWeekday", "Unsupported value", `FixedWindow, threshold: 1, calendar: {period: Week, startWeekday: Monday}`, `FixedWindow, threshold: 1, calendar: {period: Week, startWeekday: Mon}`},
	{"startDay for another period", "calendar.startDay", "startDay needs period Month", `FixedWindow, threshold: 1, calendar: {period: Month, startDay: 15}`, `FixedWindow, threshold: 1, calendar: {period: Week, startDay: 1}`},
	{"a startDay of 29", "calendar.startDay", "should be less than or equal to 28", `FixedWindow, threshold: 1, calendar: {period: Month, startDay: 28}`, `FixedWindow, threshold: 1, calendar: {period: Month, startDay: 29}`},
	{"a window below 1ms", "window", "window must be between 1ms and 8784h", `FixedWindow, threshold: 1, window: 1ms`, `FixedWindow, threshold: 1, window: 0ms`},
	{"a window above 366 days", "window", "window must be between 1ms and 8784h", `FixedWindow, threshold: 1, window: 8784h`, `FixedWindow, threshold: 1, window: 8784h1ms`},
	{"a window above 720h for another algorithm", "window", "window must be at most 720h unless algorithm is FixedWindow", `SlidingLog, threshold: 1, window: 720h`, `SlidingLog, threshold: 1, window: 720h1ms`},
	{"a bucketed window below 2ms", "window", "window must be at least 2ms when algorithm is SlidingWindow or Suppressed", `SlidingWindow, threshold: 1, window: 2ms`, `SlidingWindow, threshold: 1, window: 1ms`},
	{"a burst of 0", "burst", "should be greater than or equal to 1", `GCRA, threshold: 1, window: 1s, burst: 1`, `GCRA, threshold: 1, window: 1s, burst: 0`},
	{"a bucket above half the window", "bucket", "bucket must be between a thousandth and a half of window", `SlidingWindow, threshold: 1, window: 1h0m1s, bucket: 30m500ms`, `SlidingWindow, threshold: 1, window: 1h0m1s, bucket: 30m501ms`},
	{"a bucket below a thousandth of the window", "bucket", "bucket must be between a thousandth and a half of window", `Suppressed, threshold: 1, window: 1h, bucket: 3600ms`, `Suppressed, threshold: 1, window: 1h, bucket: 3599ms`},
	{"hardLimitPercent for another algorithm", "hardLimitPercent", "hardLimitPercent needs algorithm Suppressed", `Suppressed, threshold: 1, window: 1s, hardLimitPercent: 101`, `SlidingWindow, threshold: 1, window: 1s, hardLimitPercent: 101`},
	{"a hardLimitPercent of 100", "hardLimitPercent", "should be greater than or equal to 101", `Suppressed, threshold: 1, window: 1s, hardLimitPercent: 101`, `Suppressed, threshold: 1, window: 1s, hardLimitPercent: 100`},
	{"a hardLimitPercent of 1001", "hardLimitPercent", "should be less than or equal to 1000", `Suppressed, threshold: 1, window: 1s, hardLimitPercent: 1000`, `Suppressed, threshold: 1, window: 1s, hardLimitPercent: 1001`},
	{"a warnAt of 0", "warnAt", "should be greater than or equal to 1", `FixedWindow, threshold: 1, window: 1s, warnAt: 1`, `FixedWindow, threshold: 1, window: 1s, warnAt: 0`},
	{"a warnAt of 101", "warnAt", "should be less than or equal to 100", `FixedWindow, threshold: 1, window: 1s, warnAt: 100`, `FixedWindow, threshold: 1, window: 1s, warnAt: 101`},
	{"a block above 720h", "blockDuration", "blockDuration must be between 1ms and 720h", `FixedWindow, threshold: 1, window: 1s, blockDuration: 720h`, `FixedWindow, threshold: 1, window: 1s, blockDuration: 721h`},
	{"blockDuration beside blockDurations", "blockDurations", "blockDurations and blockDuration must not both be set", `FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 1m, 2m], escalationWindow: 1h`, `FixedWindow, threshold: 1, window: 1s, blockDurations: [1m], escalationWindow: 1h, blockDuration: 1m`},
	{"blockDurations without escalationWindow", "escalationWindow", "escalationWindow must be set with blockDurations, and only then", `FixedWindow, threshold: 1, window: 1s, blockDurations: [1ms], escalationWindow: 1ms`, `FixedWindow, threshold: 1, window: 1s, blockDurations: [1m]`},
	{"escalationWindow without blockDurations", "escalationWindow", "escalationWindow must be set with blockDurations, and only then", `FixedWindow, threshold: 1, window: 1s, blockDurations: [720h], escalationWindow: 720h`, `FixedWindow, threshold: 1, window: 1s, blockDuration: 1m, escalationWindow: 1h`},
	{"blocks that become shorter", "blockDurations", "blockDurations must not become shorter", `FixedWindow, threshold: 1, window: 1s, blockDurations: [90s, 2m], escalationWindow: 1h`, `FixedWindow, threshold: 1, window: 1s, blockDurations: [120s, 1m59s], escalationWindow: 1h`},
	{"one of blockDurations above 720h", "blockDurations", "blockDurations must be between 1ms and 720h", `FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 720h], escalationWindow: 1h`, `FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 721h], escalationWindow: 1h`},
	{"an escalationWindow above 720h", "escalationWindow", "escalationWindow must be between 1ms and 720h", `FixedWindow, threshold: 1, window: 1s, blockDurations: [1m], escalationWindow: 720h`, `FixedWindow, threshold: 1, window: 1s, blockDurations: [1m], escalationWindow: 721h`},
	{"more than 8 blockDurations", "blockDurations", "must have at most 8 items", `FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 1m, 1m, 1m, 1m, 1m, 1m, 1m], escalationWindow: 1h`, `FixedWindow, threshold: 1, window: 1s, blockDurations: [1m, 1m, 1m, 1m, 1m, 1m, 1m, 1m, 1m], escalationWindow: 1h`},
	{"a candidate without numbers", "candidate", "should have at least 1 properties", `FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 2}`, `FixedWindow, threshold: 1, window: 1s, candidate: {}`},
	{"a candidate threshold of 0", "candidate.threshold", "should be greater than or equal to 1", `FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 1}`, `FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 0}`},
	{"a candidate threshold above 10^12", "candidate.threshold", "should be less than or equal to 1000000000000", `FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 1000000000000}`, `FixedWindow, threshold: 1, window: 1s, candidate: {threshold: 1000000000001}`},
	{"a candidate threshold above 2147483647 without FixedWindow", "candidate.threshold", "threshold of the candidate must be at most 2147483647 unless algorithm is FixedWindow", `GCRA, threshold: 1, window: 1s, candidate: {threshold: 2147483647}`, `GCRA, threshold: 1, window: 1s, candidate: {threshold: 2147483648}`},
	{"a candidate threshold above 100000 with SlidingLog", "candidate.threshold", "threshold of the candidate must be at most 100000 when algorithm is SlidingLog", `SlidingLog, threshold: 1, window: 1s, candidate: {threshold: 100000}`, `SlidingLog, threshold: 1, window: 1s, candidate: {threshold: 100001}`},
	{"a candidate burst without a bucket", "candidate.burst", "burst of the candidate needs algorithm TokenBucket or GCRA", `GCRA, threshold: 1, window: 1s, candidate: {burst: 2147483647}`, `FixedWindow, threshold: 1, window: 1s, candidate: {burst: 1}`},
	{"a candidate burst of 0", "candidate.burst", "should be greater than or equal to 1", `TokenBucket, threshold: 1, window: 1s, candidate: {burst: 1}`, `TokenBucket, threshold: 1, window: 1s, candidate: {burst: 0}`},
	{"a candidate burst above 2147483647", "candidate.burst", "should be less than or equal to 2147483647", `TokenBucket, threshold: 1, window: 1s, candidate: {burst: 2147483647}`, `TokenBucket, threshold: 1, window: 1s, candidate: {burst: 2147483648}`},
	{"a candidate window of a limit with a calendar", "candidate.window", "window of the candidate needs a limit with a window", `FixedWindow, threshold: 1, calendar: {period: Day}, candidate: {threshold: 2}`, `FixedWindow, threshold: 1, calendar: {period: Day}, candidate: {window: 1h}`},
	{"a candidate window above 366 days", "candidate.window", "window must be between 1ms and 8784h", `FixedWindow, threshold: 1, window: 1s, candidate: {window: 8784h}`, `FixedWindow, threshold: 1, window: 1s, candidate: {window: 8784h1ms}`},
	{"a candidate window above 720h for another algorithm", "candidate.window", "window of the candidate must be at most 720h unless algorithm is FixedWindow", `GCRA, threshold: 1, window: 1s, candidate: {window: 720h}`, `GCRA, threshold: 1, window: 1s, candidate: {window: 720h1ms}`},
	{"a candidate window too short for buckets", "candidate.window", "window of the candidate must be at least 2ms when algorithm is SlidingWindow or Suppressed", `Suppressed, threshold: 1, window: 1s, candidate: {window: 2ms}`, `Suppressed, threshold: 1, window: 1s, candidate: {window: 1ms}`},
	{"a candidate window that its bucket does not divide", "candidate.window", "window of the candidate must be between 2 and 1000 times bucket", `SlidingWindow, threshold: 1, window: 1m, bucket: 1s, candidate: {window: 2s}`, `SlidingWindow, threshold: 1, window: 1m, bucket: 1s, candidate: {window: 1s}`},
}

// ofOneLimit returns the rules of oneLimitRules.
func ofOneLimit() map[string]rule {
	rules := map[string]rule{}
	for _, row := range oneLimitRules {
		field := "spec.limits[0]"
		if row[1] != "" {
			field += "." + row[1]
		}
		rules[row[0]] = rule{
			good: limits(`{name: a, algorithm: ` + row[3] + `}`), bad: limits(`{name: a, algorithm: ` + row[4] + `}`), field: field, message: row[2],
		}
	}
	if len(rules) != len(oneLimitRules) {
		panic("two rules of one limit have the same name")
	}
	return rules
}
