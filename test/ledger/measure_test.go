// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"runtime"
	"testing"
)

// measure is a column of the ledger.
type measure string

// The measures, as the columns of the page are named.
const (
	heap       measure = "heap"        // bytes that stay allocated
	garbage    measure = "garbage"     // all bytes that are allocated
	steps      measure = "steps"       // that the code counts
	redisCalls measure = "Redis calls" // commands, also in scripts
	redisBytes measure = "Redis bytes" // of the keys in Redis
)

var measures = []measure{heap, garbage, steps, redisCalls, redisBytes}

// noise is how much of a cost does not grow with the encoded size, or grows in steps, such as the buffers and tables of the
// runtime.
func (m measure) noise() float64 {
	switch m {
	case heap, garbage:
		return 32 << 10
	case redisBytes:
		return 4 << 10
	default:
		return 32
	}
}

// instance is an object or message that a test has built.
type instance struct {
	// encoded is its size in bytes, as its party sends it.
	encoded int
	// prepare builds it again before each use, as another one of the same size; nil does nothing.
	prepare func()
	// use does with it once what Weir does. It returns what stays, nil for nothing. It is nil if only steps are counted.
	use func(tb testing.TB) (kept any)
	// steps is the number of steps that the code has counted since the last call; nil counts none.
	steps func(tb testing.TB) int
}

// measured is what an instance costs.
type measured struct {
	encoded int // bytes
	costs   map[measure]float64
	// again measures once more. The runtime allocates for itself now and then, so the least costs count.
	again func()
}

// measureOf returns what the instance costs. server is the Redis that it uses, nil for none.
func measureOf(tb testing.TB, i instance, server *redisServer) *measured {
	tb.Helper()
	m := &measured{encoded: i.encoded, costs: map[measure]float64{}}
	note := func(what measure, cost float64) {
		if least, found := m.costs[what]; !found || cost < least {
			m.costs[what] = max(cost, 0)
		}
	}
	m.again = func() {
		if i.use != nil {
			measureUse(tb, i, server, note)
		}
		if i.steps != nil {
			note(steps, float64(i.steps(tb)))
		}
	}
	m.again()
	return m
}

// measureUse notes the memory of one use, and what it costs in Redis.
func measureUse(tb testing.TB, i instance, server *redisServer, note func(measure, float64)) {
	tb.Helper()
	if server != nil {
		server.clear(tb)
	}
	if i.prepare != nil {
		i.prepare()
	}
	before := heapState()
	kept := i.use(tb)
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	note(garbage, float64(after.TotalAlloc-before.TotalAlloc))
	if kept != nil {
		note(heap, float64(heapState().HeapAlloc)-float64(before.HeapAlloc))
	}
	runtime.KeepAlive(kept)
	if server != nil {
		calls, bytes := server.use(tb)
		note(redisCalls, float64(calls))
		note(redisBytes, float64(bytes))
	}
}

// heapState returns the state of the heap without garbage.
func heapState() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}
