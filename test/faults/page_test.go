// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import "testing"

// report logs the result.
func report(t *testing.T, r *result) {
	t.Helper()
	t.Logf("calls %d degraded %d failed %d recovery %v p99 before %v during %v over %d under %d",
		r.calls, r.degraded, r.failed, r.recovery, r.before, r.during, r.over, r.under)
}
