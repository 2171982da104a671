// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

func (c *compiler) limits(at *field.Path, limits []v1alpha1.Limit) []plan.Limit {
	var compiled []plan.Limit
	for i := range limits {
		compiled = append(compiled, c.limit(at.Index(i), &limits[i]))
	}
	return compiled
}

func (c *compiler) limit(at *field.Path, l *v1alpha1.Limit) plan.Limit {
	compiled := plan.Limit{
		Name:             l.Name,
		Algorithm:        plan.Algorithm(l.Algorithm),
		Threshold:        l.Threshold,
		Calendar:         c.calendar(at.Child("calendar"), l.Calendar),
		WindowMillis:     c.millis(at.Child("window"), l.Window),
		Burst:            ptr.Deref(l.Burst, defaultBurst(l.Algorithm, l.Threshold)),
		BucketMicros:     c.millis(at.Child("bucket"), l.Bucket) * 1000,
		HardLimitPercent: int64(ptr.Deref(l.HardLimitPercent, 0)),
		WarnPercent:      int64(ptr.Deref(l.WarnAt, 0)),
		BlockMillis:      c.millis(at.Child("blockDuration"), l.BlockDuration),
		EscalationMillis: c.millis(at.Child("escalationWindow"), l.EscalationWindow),
	}
	for i, d := range l.BlockDurations {
		compiled.BlocksMillis = append(compiled.BlocksMillis, c.millis(at.Child("blockDurations").Index(i), d))
	}
	if l.Bucket == "" {
		compiled.BucketMicros = defaultBucketMicros(l.Algorithm, compiled.WindowMillis)
	}
	if l.Algorithm == v1alpha1.AlgorithmSuppressed && l.HardLimitPercent == nil {
		compiled.HardLimitPercent = defaultHardLimitPercent
	}
	return compiled
}

// defaultBurst returns the burst of a limit that sets none, 0 for an algorithm without
// a burst.
func defaultBurst(algorithm v1alpha1.Algorithm, threshold int64) int64 {
	switch algorithm {
	case v1alpha1.AlgorithmTokenBucket:
		return threshold
	case v1alpha1.AlgorithmGCRA:
		return defaultBurstOfGCRA
	default:
		return 0
	}
}

// defaultBucketMicros returns the bucket of a limit that sets none, 0 for an algorithm
// without buckets.
func defaultBucketMicros(algorithm v1alpha1.Algorithm, windowMillis int64) int64 {
	if !plan.Algorithm(algorithm).Buckets() {
		return 0
	}
	return windowMillis * 1000 / defaultBucketsPerWindow
}

// millis converts a GEP-2257 duration, which is always whole milliseconds.
func (c *compiler) millis(at *field.Path, d v1alpha1.Duration) int64 {
	if d == "" {
		return 0
	}
	parsed, err := time.ParseDuration(string(d))
	if err != nil {
		c.add(field.Invalid(at, d, "must be a duration such as 1h30m or 500ms"))
	}
	return parsed.Milliseconds()
}
