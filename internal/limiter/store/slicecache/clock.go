// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import "time"

var processStart = time.Now() //nolint:forbidigo // the origin of monotonic

// monotonic returns the time since the process started.
func monotonic() time.Duration {
	return time.Since(processStart)
}
