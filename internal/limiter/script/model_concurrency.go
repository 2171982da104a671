// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

// concurrency is the reference model of concurrency.lua.
type concurrency struct{}

func (concurrency) used(*Entry, *Limit, int64) int64             { return 0 }
func (concurrency) usedAfter(*Entry, *Limit, int64, int64) int64 { return 0 }
func (concurrency) timeToFit(*Entry, *Limit, int64) int64        { return 0 }
func (concurrency) resetAfter(*Entry, *Limit, int64) int64       { return 0 }
func (concurrency) spend(*Entry, *Limit, int64, bool)            {}
func (concurrency) settle(*Entry, *Limit, int64, int64, int64)   {}
func (concurrency) settled(*Entry, *Limit, int64)                {}
func (concurrency) keep(*Entry, *Limit, int64)                   {}

func (concurrency) afterLast(_ *Limit, _, last, _ int64) int64 { return last }
