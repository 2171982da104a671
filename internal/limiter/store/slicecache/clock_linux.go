// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceStart returns the time since the machine started. It includes the time for which the machine was suspended, which
// the monotonic clock of package time does not.
func sinceStart() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return monotonic()
	}
	return time.Duration(t.Nano())
}
