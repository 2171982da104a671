// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

// concurrency has no state but the holds.
type concurrency struct{}

func (concurrency) used(*view) int64             { return 0 }
func (concurrency) usedAfter(*view, int64) int64 { return 0 }
func (concurrency) timeToFit(*view) int64        { return 0 }
func (concurrency) resetAfter(*view) int64       { return 0 }
func (concurrency) spend(*view, bool)            {}
func (concurrency) settle(*view, int64, int64)   {}
func (concurrency) endSettling(*view)            {}
func (concurrency) keep(*view)                   {}

func (concurrency) afterLast(_ *view, _, last, _ int64) int64 { return last }
