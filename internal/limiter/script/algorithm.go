// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "strconv"

// Algorithm is how a limit counts. Its value is the code that names it in
// scripts and in keys.
type Algorithm string

// kind is what the Go half of an algorithm brings; the other half is its Lua
// file.
type kind struct {
	code Algorithm
	// file is the Lua of the algorithm, library what several share, if anything.
	file, library string
	// arguments are what the script takes for a limit beyond quota, window and
	// block.
	arguments func(*Limit) []int64
	// ceiling is how far the state of the limit can grow; limits that share a
	// state share the largest of theirs. Nil if nothing bounds it.
	ceiling func(*Limit) int64
	// attempts says that the algorithm can count denied checks.
	attempts bool
	// model returns the state of the reference model.
	model func(*Model, *Entry, *Limit) counter
}

// kinds in the order in which scripts are assembled. A bit set of algorithms
// has the bit of the index of each.
var kinds = [...]*kind{
	&fixedWindowKind, &slidingLogKind, &slidingWindowKind, &tokenBucketKind, &gcraKind, &suppressedKind,
}

func (a Algorithm) index() int {
	for i, k := range kinds {
		if a == k.code {
			return i
		}
	}
	panic("script: unknown algorithm " + strconv.Quote(string(a)))
}

func (a Algorithm) kind() *kind { return kinds[a.index()] }

func (a Algorithm) bit() uint { return 1 << a.index() }
