// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

// Prices in nanoseconds, measured with BenchmarkHostile on a virtual machine with two shared cores,
// and about half as much again.
const (
	costOfEvaluation = 600.0 // of an expression, besides its parts
	costOfConstant   = 6.0
	costOfVariable   = 35.0
	costOfScope      = 12.0 // to look for a variable in a loop around it
	costOfOperator   = 20.0
	costOfArithmetic = 90.0
	costOfComparison = 20.0
	costOfCall       = 120.0 // of a function on texts
	costOfFailure    = 500.0 // to format the message of an error
	costOfConversion = 150.0 // of a text of at most maxNumber bytes
	costOfDouble     = 2_000.0
	costOfTime       = 800.0 // to read or write

	costOfLoop      = 500.0
	costOfIteration = 120.0
	costOfNextKey   = 100.0 // of a map
	costOfList      = 120.0
	costOfElement   = 75.0
	costOfJoint     = 15.0 // to find an element behind one concatenation
	costOfEntry     = 200.0

	costOfRead           = 120.0 // of a key or index
	costOfLookup         = 60.0  // in a map of Go
	costOfValue          = 400.0 // of a query or cookie, to read it, in two ways
	costOfPayload        = 300.0 // of claims
	costOfCheckedName    = 70.0  // of a header
	costOfRepeatedHeader = 6.0
	costOfScannedEntry   = 4.0
	costOfIndexedEntry   = 90.0
	costOfFormattedValue = 300.0 // in the message of an error

	costOfMatch = 2_000.0 // besides the bytes
	costOfPart  = 45.0    // of a split
)

// Prices of a byte.
const (
	costOfEquality      = 0.1
	costOfHashing       = 0.4
	costOfCopy          = 0.8
	costOfFormatting    = 3.0
	costOfFolding       = 3.0  // of a header name
	costOfDecoding      = 12.0 // of a query or cookie, in two ways
	costOfSearch        = 4.0
	costOfCounting      = 6.0
	costOfCountingByte  = 0.2
	costOfASCII         = 4.0
	costOfTrimming      = 5.0
	costOfRune          = 6.0  // to count
	costOfRunes         = 14.0 // to decode into a list
	costOfRewritingRune = 24.0 // to decode and encode
	costOfComparedRune  = 1.2  // in a search that starts at each rune
	costOfOccurrence    = 18.0 // to replace, and to find another one

	costOfTransition  = 6.0  // of an automaton
	costOfRangeStep   = 1.5  // of a search for a range of runes
	costOfPatternByte = 25.0 // by package regexp
	costOfInstruction = 9.0  // by package regexp
)
