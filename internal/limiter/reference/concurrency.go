// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import "github.com/weir-dev/weir/internal/limiter/quota"

// concurrency is the reference model of concurrency.lua.
type concurrency struct{}

func (concurrency) used(*quota.Entry, *quota.Limit, int64) int64             { return 0 }
func (concurrency) usedAfter(*quota.Entry, *quota.Limit, int64, int64) int64 { return 0 }
func (concurrency) timeToFit(*quota.Entry, *quota.Limit, int64) int64        { return 0 }
func (concurrency) resetAfter(*quota.Entry, *quota.Limit, int64) int64       { return 0 }
func (concurrency) spend(*quota.Entry, *quota.Limit, int64, bool)            {}
func (concurrency) settle(*quota.Entry, *quota.Limit, int64, int64, int64)   {}
func (concurrency) settled(*quota.Entry, *quota.Limit, int64)                {}
func (concurrency) keep(*quota.Entry, *quota.Limit, int64)                   {}

func (concurrency) afterLast(_ *quota.Limit, _, last, _ int64) int64 { return last }
