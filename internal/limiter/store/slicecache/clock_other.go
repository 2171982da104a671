// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package slicecache

import "time"

// sinceStart returns the time since the process started, without the time for which the machine was suspended.
func sinceStart() time.Duration { return monotonic() }
