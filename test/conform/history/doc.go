// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history records the calls of callers and judges them from outside: what a rate limiter admitted
// beyond a quota, and what it denied although there was room.
//
// A judge knows when a call was sent and when its answer arrived, but not when the limiter counted it. So it
// reports only what is wrong whenever between these two times every call was counted. What it reports
// happened; what happened may be more.
//
// Reading order: recorder.go (calls), over.go and under.go (the judges), times.go (latencies).
package history
