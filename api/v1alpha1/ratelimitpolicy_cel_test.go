// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// rule is one rule of the schema: a spec that is barely valid, one that is barely
// invalid, and the error of the API server for the latter.
type rule struct {
	good, bad string
	field     string
	message   string
}

// rules are all rules of the schema, by what they reject.
var rules = map[string]rule{
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
	"reservations with counting Attempts": {
		good:    reservations(`{maxTTL: 1m}`, `counting: Admitted`, aLimit),
		bad:     reservations(`{maxTTL: 1m}`, `counting: Attempts`, aLimit),
		field:   "spec.reservations",
		message: "reservations need counting Admitted",
	},
	"reservations with Suppressed": {
		good: reservations(`{maxTTL: 1m}`, `mode: Enforce`,
			`{name: a, algorithm: GCRA, threshold: 5, window: 1m}`, `{name: b, algorithm: SlidingWindow, threshold: 5, window: 1m}`),
		bad: reservations(`{maxTTL: 1m}`, `mode: Enforce`,
			aLimit, `{name: b, algorithm: Suppressed, threshold: 5, window: 1m}`),
		field:   "spec.reservations",
		message: "reservations need limits that do not use Suppressed",
	},
	"Concurrency without reservations": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     limits(`{name: a, algorithm: Concurrency, threshold: 5}`),
		field:   "spec.reservations",
		message: "reservations must be set when a limit uses Concurrency",
	},
	"Concurrency with a window": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, window: 1s}`),
		field:   "spec.limits[0].window",
		message: "window must not be set when algorithm is Concurrency",
	},
	"Concurrency with a calendar": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, calendar: {period: Day}}`),
		field:   "spec.limits[0].calendar",
		message: "calendar needs algorithm FixedWindow",
	},
	"Concurrency with a burst": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, burst: 2}`),
		field:   "spec.limits[0].burst",
		message: "burst needs algorithm TokenBucket or GCRA",
	},
	"Concurrency with a bucket": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, bucket: 1s}`),
		field:   "spec.limits[0].bucket",
		message: "bucket needs algorithm SlidingWindow or Suppressed",
	},
	"Concurrency with a blockDuration": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, blockDuration: 1m}`),
		field:   "spec.limits[0].blockDuration",
		message: "blockDuration must not be set when algorithm is Concurrency",
	},
	"Concurrency with a blockDurations": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, blockDurations: [1m], escalationWindow: 1h}`),
		field:   "spec.limits[0].blockDurations",
		message: "blockDurations must not be set when algorithm is Concurrency",
	},
	"a window of an override for Concurrency": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce, overrides: [{name: o, when: "true", limits: [{name: a, threshold: 9}]}]`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce, overrides: [{name: o, when: "true", limits: [{name: a, window: 1s}]}]`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		field:   "spec.overrides",
		message: "window of an override needs a limit with a window",
	},
	"a blockDuration of an override for Concurrency": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce, overrides: [{name: o, when: "true", limits: [{name: a, threshold: 9}]}]`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce, overrides: [{name: o, when: "true", limits: [{name: a, blockDuration: 1s}]}]`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		field:   "spec.overrides",
		message: "blockDuration of an override needs a limit that does not use Concurrency",
	},
	"a threshold of Concurrency above 2147483647": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 2147483647}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 2147483648}`),
		field:   "spec.limits[0].threshold",
		message: "threshold must be at most 2147483647 unless algorithm is FixedWindow",
	},
	"reservations without maxTTL": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxOpen: 5}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxTTL",
		message: "Required value",
	},
	"a maxTTL below 1s": {
		good:    reservations(`{maxTTL: 1s}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 999ms}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxTTL",
		message: "maxTTL must be between 1s and 24h",
	},
	"a maxTTL above 24h": {
		good:    reservations(`{maxTTL: 24h}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 24h1ms}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxTTL",
		message: "maxTTL must be between 1s and 24h",
	},
	"a maxOpen of 0": {
		good:    reservations(`{maxTTL: 1m, maxOpen: 1}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 1m, maxOpen: 0}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxOpen",
		message: "should be greater than or equal to 1",
	},
	"a maxOpen above 100000": {
		good:    reservations(`{maxTTL: 1m, maxOpen: 100000}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 1m, maxOpen: 100001}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxOpen",
		message: "should be less than or equal to 100000",
	},
	"lateCharges from 1": {
		good:    `{lateCharges: {from: 2}, ` + limits(aLimit)[1:],
		bad:     `{lateCharges: {from: 1}, ` + limits(aLimit)[1:],
		field:   "spec.lateCharges.from",
		message: "should be greater than or equal to 2",
	},
	"lateCharges from 2147483648": {
		good:    `{lateCharges: {from: 2147483647}, ` + limits(aLimit)[1:],
		bad:     `{lateCharges: {from: 2147483648}, ` + limits(aLimit)[1:],
		field:   "spec.lateCharges.from",
		message: "should be less than or equal to 2147483647",
	},
	"lateCharges without from": {
		good:    `{lateCharges: {from: 1000}, ` + limits(aLimit)[1:],
		bad:     `{lateCharges: {}, ` + limits(aLimit)[1:],
		field:   "spec.lateCharges.from",
		message: "Required value",
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

	"a match that selects nothing": {
		good:    matches(`{methods: [GET]}`),
		bad:     matches(`{}`),
		field:   "spec.matches[0]",
		message: "every match must set at least one of hosts, methods, paths, when, domain and descriptors",
	},
	"a match with an empty list": {
		good:    matches(`{hosts: [a.example]}`),
		bad:     matches(`{hosts: []}`),
		field:   "spec.matches[0].hosts",
		message: "should have at least 1 items",
	},
	"more than 16 matches": {
		good:    matches(repeat(16, `{domain: d%d}`)),
		bad:     matches(repeat(17, `{domain: d%d}`)),
		field:   "spec.matches",
		message: "must have at most 16 items",
	},
	"a host in upper case": {
		good:    matches(`{hosts: [shop.example, "*.shop.example", localhost, 10.0.0.1]}`),
		bad:     matches(`{hosts: [Shop.example]}`),
		field:   "spec.matches[0].hosts[0]",
		message: "hosts must be lower-case DNS names, with the prefix *. for all subdomains",
	},
	"a host with a wildcard inside": {
		good:    matches(`{hosts: ["*.example"]}`),
		bad:     matches(`{hosts: ["shop.*.example"]}`),
		field:   "spec.matches[0].hosts[0]",
		message: "hosts must be lower-case DNS names, with the prefix *. for all subdomains",
	},
	"a host with a port": {
		good:    matches(`{hosts: [a.example, b.example]}`),
		bad:     matches(`{hosts: [a.example, "b.example:443"]}`),
		field:   "spec.matches[0].hosts[1]",
		message: "hosts must be lower-case DNS names, with the prefix *. for all subdomains",
	},
	"one host twice": {
		good:    matches(`{hosts: [a.example, b.example]}`),
		bad:     matches(`{hosts: [a.example, a.example]}`),
		field:   "spec.matches[0].hosts[1]",
		message: "Duplicate value",
	},
	"a method in lower case": {
		good:    matches(`{methods: [GET, M-SEARCH]}`),
		bad:     matches(`{methods: [get]}`),
		field:   "spec.matches[0].methods[0]",
		message: "methods must be HTTP methods in upper case",
	},
	"a path without a slash in front": {
		good:    matches(`{paths: [/, /login, "/api/*", "/*"]}`),
		bad:     matches(`{paths: [login]}`),
		field:   "spec.matches[0].paths[0]",
		message: "paths must start with / and have * at most once, as the last character",
	},
	"a path with a wildcard inside": {
		good:    matches(`{paths: ["/api/v1*"]}`),
		bad:     matches(`{paths: ["/api/*/users"]}`),
		field:   "spec.matches[0].paths[0]",
		message: "paths must start with / and have * at most once, as the last character",
	},
	"an expression above 1024 characters": {
		good:    matches(`{when: ` + strings.Repeat("a", 1024) + `}`),
		bad:     matches(`{when: ` + strings.Repeat("a", 1025) + `}`),
		field:   "spec.matches[0].when",
		message: "may not be more than 1024 bytes",
	},
	"a descriptor without a key": {
		good:    matches(`{descriptors: [{key: generic_key, value: login}, {key: user_id}]}`),
		bad:     matches(`{descriptors: [{value: login}]}`),
		field:   "spec.matches[0].descriptors[0].key",
		message: "Required value",
	},

	"type Header without header": {
		good:    key(`{type: Header, header: {name: X-Api-Key}}`),
		bad:     key(`{type: Header}`),
		field:   "spec.key[0]",
		message: "header must be set when type is Header, and only then",
	},
	"remoteAddress beside another type": {
		good:    key(`{type: RemoteAddress, remoteAddress: {}}`),
		bad:     key(`{type: Header, header: {name: X-Api-Key}, remoteAddress: {}}`),
		field:   "spec.key[0]",
		message: "remoteAddress must be set when type is RemoteAddress, and only then",
	},
	"type Descriptor without descriptor": {
		good:    key(`{type: Descriptor, descriptor: {key: user_id}}`),
		bad:     key(`{type: Descriptor}`),
		field:   "spec.key[0]",
		message: "descriptor must be set when type is Descriptor, and only then",
	},
	"type Principal without principal": {
		good:    key(`{type: Principal, principal: {}}`),
		bad:     key(`{type: Principal}`),
		field:   "spec.key[0]",
		message: "principal must be set when type is Principal, and only then",
	},
	"expression beside another type": {
		good:    key(`{type: Expression, expression: {cel: 'request.path'}}`),
		bad:     key(`{type: Principal, principal: {}, expression: {cel: 'request.path'}}`),
		field:   "spec.key[0]",
		message: "expression must be set when type is Expression, and only then",
	},
	"more than 8 parts": {
		good:    key(repeat(8, `{type: Header, header: {name: h%d}}`)),
		bad:     key(repeat(9, `{type: Header, header: {name: h%d}}`)),
		field:   "spec.key",
		message: "must have at most 8 items",
	},
	"a header name with a space": {
		good:    key("{type: Header, header: {name: \"!#$%&'*+-.^_`|~09azAZ\"}}"),
		bad:     key(`{type: Header, header: {name: "X Api Key"}}`),
		field:   "spec.key[0].header.name",
		message: "name must be an HTTP header name",
	},
	"an IPv4 prefix above 32": {
		good:    key(`{type: RemoteAddress, remoteAddress: {ipv4PrefixLength: 32, ipv6PrefixLength: 0}}`),
		bad:     key(`{type: RemoteAddress, remoteAddress: {ipv4PrefixLength: 33}}`),
		field:   "spec.key[0].remoteAddress.ipv4PrefixLength",
		message: "should be less than or equal to 32",
	},
	"an IPv6 prefix above 128": {
		good:    key(`{type: RemoteAddress, remoteAddress: {ipv4PrefixLength: 0, ipv6PrefixLength: 128}}`),
		bad:     key(`{type: RemoteAddress, remoteAddress: {ipv6PrefixLength: 129}}`),
		field:   "spec.key[0].remoteAddress.ipv6PrefixLength",
		message: "should be less than or equal to 128",
	},
	"an empty expression": {
		good:    key(`{type: Expression, expression: {cel: a}}`),
		bad:     key(`{type: Expression, expression: {cel: ""}}`),
		field:   "spec.key[0].expression.cel",
		message: "should be at least 1 chars long",
	},

	"an override without selectors": {
		good:    overrides(`{name: o, when: 'true', action: Allow}`),
		bad:     overrides(`{name: o, action: Allow}`),
		field:   "spec.overrides[0]",
		message: "every override must set at least one of keys, cidrs and when",
	},
	"two overrides of one name": {
		good:    overrides(`{name: o, when: a, action: Allow}`, `{name: p, when: b, action: Allow}`),
		bad:     overrides(`{name: o, when: a, action: Allow}`, `{name: o, when: b, action: Allow}`),
		field:   "spec.overrides",
		message: "name of every override must be unique",
	},
	"a name of an override that is no DNS label": {
		good:    overrides(`{name: a-1, when: a, action: Allow}`),
		bad:     overrides(`{name: a-, when: a, action: Allow}`),
		field:   "spec.overrides[0].name",
		message: "name must be a DNS label: lower-case letters, digits and inner dashes",
	},
	"more than 64 overrides": {
		good:    overrides(repeat(64, `{name: o%d, when: a, action: Allow}`)),
		bad:     overrides(repeat(65, `{name: o%d, when: a, action: Allow}`)),
		field:   "spec.overrides",
		message: "must have at most 64 items",
	},
	"an override that limits with no limits, by default": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, threshold: 9}]}`),
		bad:     overrides(`{name: o, when: a}`),
		field:   "spec.overrides[0].limits",
		message: "limits must be set when action is Limit",
	},
	"an override that limits with no limits, as said": {
		good:    overrides(`{name: o, when: a, action: Limit, limits: [{name: log, threshold: 9}]}`),
		bad:     overrides(`{name: o, when: a, action: Limit}`),
		field:   "spec.overrides[0].limits",
		message: "limits must be set when action is Limit",
	},
	"an override that allows with limits": {
		good:    overrides(`{name: o, when: a, action: Deny}`),
		bad:     overrides(`{name: o, when: a, action: Deny, limits: [{name: log, threshold: 9}]}`),
		field:   "spec.overrides[0].limits",
		message: "limits must not be set when action is Allow or Deny",
	},
	"an override of a limit that is not there": {
		good:    overrides(`{name: o, when: a, limits: [{name: log}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: other}]}`),
		field:   "spec.overrides",
		message: "limits of an override must name entries of the policy's limits",
	},
	"an override with one limit twice": {
		good:    overrides(`{name: o, when: a, limits: [{name: log}, {name: gcra}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log}, {name: log}]}`),
		field:   "spec.overrides[0].limits[1]",
		message: "Duplicate value",
	},
	"keys without a key": {
		good:    `{key: [{type: Principal, principal: {}}], ` + overrides(`{name: o, keys: [acme], action: Allow}`)[1:],
		bad:     overrides(`{name: o, keys: [acme], action: Allow}`),
		field:   "spec.overrides",
		message: "keys of an override need a key of exactly one part",
	},
	"keys with a key of two parts": {
		good: `{key: [{type: Principal, principal: {}}], ` + overrides(`{name: o, keys: [acme], action: Allow}`)[1:],
		bad: `{key: [{type: Principal, principal: {}}, {type: RemoteAddress, remoteAddress: {}}], ` +
			overrides(`{name: o, keys: [acme], action: Allow}`)[1:],
		field:   "spec.overrides",
		message: "keys of an override need a key of exactly one part",
	},
	"a network that is an address": {
		good:    overrides(`{name: o, cidrs: [10.0.0.0/8, "2001:db8::/32"], action: Allow}`),
		bad:     overrides(`{name: o, cidrs: [10.0.0.0/8, 10.0.0.1], action: Allow}`),
		field:   "spec.overrides[0].cidrs[1]",
		message: "cidrs must be networks in CIDR form, such as 10.0.0.0/8 or 2001:db8::/32",
	},
	"more than 256 networks": {
		good:    overrides(`{name: o, action: Allow, cidrs: [` + repeat(256, `10.0.%d.0/24`) + `]}`),
		bad:     overrides(`{name: o, action: Allow, cidrs: [` + repeat(257, `10.0.%d.0/24`) + `]}`),
		field:   "spec.overrides[0].cidrs",
		message: "must have at most 256 items",
	},
	"a burst for a limit without one": {
		good:    overrides(`{name: o, when: a, limits: [{name: gcra, burst: 9}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, burst: 9}]}`),
		field:   "spec.overrides",
		message: "burst of an override needs a limit that uses TokenBucket or GCRA",
	},
	"an override threshold too large for a log": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, threshold: 100000}, {name: gcra, threshold: 100001}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, threshold: 100001}]}`),
		field:   "spec.overrides",
		message: "threshold of an override must be at most 100000 for a limit that uses SlidingLog",
	},
	"an override threshold of 2^31 for another algorithm": {
		good: `{overrides: [{name: o, when: a, limits: [{name: fixed, threshold: 2147483648}, {name: gcra, threshold: 2147483647}]}], ` + limits(
			`{name: fixed, algorithm: FixedWindow, threshold: 5, window: 1m}`,
			`{name: gcra, algorithm: GCRA, threshold: 5, window: 1m}`)[1:],
		bad:     overrides(`{name: o, when: a, limits: [{name: gcra, threshold: 2147483648}]}`),
		field:   "spec.overrides",
		message: "threshold of an override must be at most 2147483647 unless the limit uses FixedWindow",
	},
	"an override threshold of 1 that would deny everything": {
		good: `{denyWhen: ThresholdReached, limits: [` + aLimit + `], overrides: [
			{name: o, when: a, limits: [{name: a, threshold: 2}]}]}`,
		bad: `{denyWhen: ThresholdReached, limits: [` + aLimit + `], overrides: [
			{name: o, when: a, limits: [{name: a, threshold: 1}]}]}`,
		field:   "spec.overrides",
		message: "threshold of an override must be at least 2 when denyWhen is ThresholdReached",
	},
	"an override threshold of 0": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, threshold: 1}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, threshold: 0}]}`),
		field:   "spec.overrides[0].limits[0].threshold",
		message: "should be greater than or equal to 1",
	},
	"an override window above 720h": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, window: 720h}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, window: 720h1s}]}`),
		field:   "spec.overrides[0].limits[0].window",
		message: "window must be between 1ms and 720h",
	},
	"an override block below 1ms": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, blockDuration: 1ms}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, blockDuration: 0s}]}`),
		field:   "spec.overrides[0].limits[0].blockDuration",
		message: "blockDuration must be between 1ms and 720h",
	},
	"an override window too short for buckets": {
		good:    overrides(`{name: o, when: a, limits: [{name: suppressed, window: 2ms}, {name: log, window: 1ms}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: suppressed, window: 1ms}]}`),
		field:   "spec.overrides",
		message: "window of an override must be at least 2ms for a limit that uses SlidingWindow or Suppressed",
	},
	"an override window too short for the bucket": {
		good:    overrides(`{name: o, when: a, limits: [{name: bucketed, window: 2s}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: bucketed, window: 1999ms}]}`),
		field:   "spec.overrides",
		message: "window of an override must be between 2 and 1000 times the bucket of the limit",
	},
	"an override window too long for the bucket": {
		good:    overrides(`{name: o, when: a, limits: [{name: bucketed, window: 1000s}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: bucketed, window: 1000s1ms}]}`),
		field:   "spec.overrides",
		message: "window of an override must be between 2 and 1000 times the bucket of the limit",
	},

	"an unknown code": {
		good:    `{denial: {code: TooManyAttempts, message: Slow down.}, ` + limits(aLimit)[1:],
		bad:     `{denial: {code: Teapot}, ` + limits(aLimit)[1:],
		field:   "spec.denial.code",
		message: "Unsupported value",
	},
	"a message above 255 characters": {
		good:    `{denial: {message: ` + strings.Repeat("a", 255) + `}, ` + limits(aLimit)[1:],
		bad:     `{denial: {message: ` + strings.Repeat("a", 256) + `}, ` + limits(aLimit)[1:],
		field:   "spec.denial.message",
		message: "may not be more than 255 bytes",
	},
}

func ruleEntries() []TableEntry {
	var entries []TableEntry
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		entries = append(entries, Entry(name, rules[name]))
	}
	return entries
}

var _ = Describe("RateLimitPolicy", func() {
	create := func(ctx SpecContext, spec string) error {
		return api.Create(ctx, policyFrom(spec), client.DryRunAll)
	}

	DescribeTable("rejects", func(ctx SpecContext, r rule) {
		Expect(create(ctx, r.good)).To(Succeed())

		err := create(ctx, r.bad)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "want a rejection by the schema, got %v", err)
		Expect(causes(err)).To(ConsistOf(And(
			HaveField("Field", r.field),
			HaveField("Message", ContainSubstring(r.message)),
		)), "one complaint, about the right field")
	}, ruleEntries())

	DescribeTable("rejects a duration that is not GEP-2257", func(ctx SpecContext, duration string) {
		err := create(ctx, limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: "`+duration+`"}`))
		Expect(causes(err)).To(ContainElement(HaveField("Field", "spec.limits[0].window")))
	},
		Entry("a bare number", "60"),
		Entry("a fraction", "1.5s"),
		Entry("days", "1d"),
		Entry("microseconds", "1us"),
		Entry("a sign", "-1s"),
		Entry("a space", "1 s"),
		Entry("nothing", ""),
		Entry("five parts", "1h1m1s1ms1ms"),
		Entry("more than 24 characters", "00001h00001m00001s00001ms"),
	)

	It("accepts a policy with every field at its upper bound", func(ctx SpecContext) {
		// The CEL rules must stay within the cost budget of the API server for every
		// policy that is valid by the schema.
		long := strings.Repeat("x", 60)
		limitOverrides := repeat(16, `{name: `+long+`%d, threshold: 100000, window: 1000s, blockDuration: 720h}`)
		spec := `{key: [{type: Principal, principal: {}}], limits: [` +
			repeat(16, `{name: `+long+`%d, algorithm: SlidingWindow, threshold: 100000, window: 1000s, bucket: 1s}`) +
			`], overrides: [` + repeat(64, `{name: `+long+`%d, when: a, limits: [`+limitOverrides+`]}`) + `]}`
		Expect(create(ctx, spec)).To(Succeed())
	})

	It("has an invalid example for every rule of the schema", func() {
		var provoked []string
		for _, r := range rules {
			provoked = append(provoked, r.message)
		}
		Expect(provoked).To(ContainElements(ruleMessages(policySchema(GinkgoTB()))))
	})

	It("defaults the enums of the spec, the status, and nothing else", func(ctx SpecContext) {
		policy := policyFrom(`{
			limits: [
				{name: sw, algorithm: SlidingWindow, threshold: 5, window: 1m},
				{name: s, algorithm: Suppressed, threshold: 5, window: 1m},
				{name: tb, algorithm: TokenBucket, threshold: 5, window: 1m}],
			key: [{type: RemoteAddress, remoteAddress: {}}],
			matches: [{hosts: [shop.example]}],
			overrides: [{name: o, keys: [a], limits: [{name: tb}]}],
			denial: {}}`)
		policy.SetName("defaults")
		want := policy.DeepCopy()
		Expect(api.Create(ctx, policy)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, policy)).To(Succeed()) })
		Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())

		for field, value := range map[string]string{
			"mode":         string(v1alpha1.ModeEnforce),
			"onMissingKey": string(v1alpha1.OnMissingKeyShare),
			"counting":     string(v1alpha1.CountingAdmitted),
			"denyWhen":     string(v1alpha1.DenyWhenThresholdExceeded),
			"failureMode":  string(v1alpha1.FailureModeOpen),
		} {
			Expect(unstructured.SetNestedField(want.Object, value, "spec", field)).To(Succeed())
		}
		Expect(policy.Object["spec"]).To(Equal(want.Object["spec"]))
		Expect(policy.Object["status"]).To(Equal(map[string]any{"observedGeneration": int64(-1)}))
	})

	It("is unchanged by a round trip through the Go types", func(ctx SpecContext) {
		policy := policyFrom(limits(aLimit))
		policy.SetName("round-trip")
		Expect(api.Create(ctx, policy)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, policy)).To(Succeed()) })

		typed := &v1alpha1.RateLimitPolicy{}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), typed)).To(Succeed())
		Expect(typed.Status.ObservedGeneration).To(BeEquivalentTo(-1))
		Expect(api.Update(ctx, typed)).To(Succeed())
		Expect(typed.Generation).To(BeEquivalentTo(1), "an update without a change is none")
	})
})

var _ = Describe("The samples", func() {
	It("are accepted", func(ctx SpecContext) {
		files, err := filepath.Glob("../../config/samples/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			data, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			for i, document := range strings.Split("\n"+string(data), "\n---") {
				object := &unstructured.Unstructured{}
				Expect(yaml.UnmarshalStrict([]byte(document), &object.Object)).To(Succeed(), file)
				if object.GetKind() != "RateLimitPolicy" {
					continue
				}
				// The namespaces of the samples do not exist here.
				object.SetNamespace(metav1.NamespaceDefault)
				Expect(api.Create(ctx, object, client.DryRunAll)).To(Succeed(), "%s, document %d", file, i)
			}
		}
	})
})

// aLimit is a limit with arbitrary numbers.
const aLimit = `{name: a, algorithm: FixedWindow, threshold: 5, window: 1m}`

// limits returns a spec with only these limits.
func limits(entries ...string) string {
	return `{limits: [` + strings.Join(entries, ", ") + `]}`
}

// reservations returns a spec with these reservations, one more field and these limits.
func reservations(r, more string, entries ...string) string {
	return `{reservations: ` + r + `, ` + more + `, ` + limits(entries...)[1:]
}

// matches returns a spec with these matches.
func matches(entries ...string) string {
	return `{matches: [` + strings.Join(entries, ", ") + `], ` + limits(aLimit)[1:]
}

// key returns a spec with a key of these parts.
func key(parts ...string) string {
	return `{key: [` + strings.Join(parts, ", ") + `], ` + limits(aLimit)[1:]
}

// overrides returns a spec with these overrides and the limits that they may change.
func overrides(entries ...string) string {
	return `{overrides: [` + strings.Join(entries, ", ") + `], ` + limits(
		`{name: log, algorithm: SlidingLog, threshold: 5, window: 1m}`,
		`{name: gcra, algorithm: GCRA, threshold: 5, window: 1m}`,
		`{name: suppressed, algorithm: Suppressed, threshold: 5, window: 1m}`,
		`{name: bucketed, algorithm: SlidingWindow, threshold: 5, window: 1m, bucket: 1s}`,
	)[1:]
}

// repeat returns n entries, each with its number in place of %d.
func repeat(n int, entry string) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = strings.ReplaceAll(entry, "%d", strconv.Itoa(i))
	}
	return strings.Join(entries, ", ")
}

// policyFrom returns a policy with a spec in YAML, unstructured, since Go types would
// drop empty fields.
func policyFrom(spec string) *unstructured.Unstructured {
	GinkgoHelper()
	data, err := yaml.YAMLToJSON([]byte(`{
		apiVersion: ratelimit.weir.dev/v1alpha1, kind: RateLimitPolicy,
		metadata: {namespace: default, name: policy}, spec: ` + spec + `}`))
	Expect(err).NotTo(HaveOccurred())
	policy := &unstructured.Unstructured{}
	Expect(policy.UnmarshalJSON(data)).To(Succeed())
	return policy
}

// causes returns the causes of a rejection, without the note that some rules were not
// checked because of them.
func causes(err error) []metav1.StatusCause {
	GinkgoHelper()
	var status apierrors.APIStatus
	Expect(errors.As(err, &status)).To(BeTrue(), "want a rejection, got %v", err)
	Expect(status.Status().Details).NotTo(BeNil())
	return slices.DeleteFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return strings.Contains(cause.Message, "some validation rules were not checked")
	})
}
