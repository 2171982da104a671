// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

// Concurrency admits at most Quota units at a time: those that are held. A Check is judged and
// holds nothing, so the limit counts only what comes through Reserve. There is no queue: while
// small costs keep coming, a large one may never be admitted. Window is 0. See concurrency.lua.
const Concurrency Algorithm = "co"

var concurrencyKind = kind{
	code: Concurrency, name: "Concurrency", file: "concurrency.lua",
	model: func(*Model, *Entry, *Limit) counter { return concurrency{} },
}

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
