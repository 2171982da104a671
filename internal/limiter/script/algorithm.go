// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "strconv"

// Algorithm is how a limit counts. Its value is its code in scripts and in keys.
type Algorithm string

// kind describes an algorithm. Its decisions are made by its Lua file.
type kind struct {
	code Algorithm
	name string // in the API
	// file is the Lua file of the algorithm, library one that it shares with others.
	file, library string
	// lean is true if lean.lua decides checks; see leanFile.
	lean bool
	// arguments returns the arguments of a limit after quota, window and block.
	arguments func(*Limit) []int64
	// ceiling returns how far the state of the limit can grow; limits that share a
	// state share the largest ceiling. Nil if the algorithm needs no ceiling.
	ceiling func(*Limit) int64
	// attempts is true if the algorithm can count denied checks.
	attempts bool
	// model returns the state of the limit in the reference model.
	model func(*Model, *Entry, *Limit) counter
}

// kinds are all algorithms, in the order in which scripts are assembled. The index is
// the bit of an algorithm in a bit set.
var kinds = [...]*kind{
	&fixedWindowKind, &slidingLogKind, &slidingWindowKind, &tokenBucketKind, &gcraKind, &suppressedKind,
	&concurrencyKind,
}

// AlgorithmNamed returns the algorithm with that name in the API, such as "FixedWindow"; ""
// if there is no such algorithm.
func AlgorithmNamed(name string) Algorithm {
	for _, k := range kinds {
		if k.name == name {
			return k.code
		}
	}
	return ""
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

// refills reports whether the state is a deficit, which the rate of a limit reduces.
func (a Algorithm) refills() bool { return a.kind().library == deficitLibrary }

func (a Algorithm) bit() uint { return 1 << a.index() }
