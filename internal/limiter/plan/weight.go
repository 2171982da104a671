// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "strings"

// The live heap that each part of a record takes at most in a replica, in bytes. TestWeightsCoverTheHeap of package engine
// holds them.
const (
	// heapOfText is for a byte of the encoding: the leader has it in two formats and every replica has its texts, in
	// allocations that are up to an eighth larger.
	heapOfText = 4

	heapOfPlan  = 4 << 10
	heapOfMatch = 512
	// heapOfPattern is for a pattern or entry of a match, beside its text. The index takes at most 150 bytes for each, and is
	// counted twice: the next index may be built beside the current one.
	heapOfPattern = 2*150 + 48
	// heapOfExcept is for a value or prefix that an entry excludes, which the index does not have.
	heapOfExcept  = 32
	heapOfKeyPart = 128
	// heapOfLimit is for the numbers of one limit, which the policy and each override with limits have.
	heapOfLimit = 640
	// heapOfSeries is for the metrics of one limit.
	heapOfSeries   = 1 << 10
	heapOfOverride = 1 << 10
	// heapOfSelector is for a key, a network or a group that an override selects.
	heapOfSelector = 128

	// A compiled expression: what each has, and a byte of its text, of which nested macros take most.
	heapOfExpression     = 8 << 10
	heapOfExpressionText = 96
	// heapOfMatcher is for a call of matches(): see MaxPatternHeap.
	heapOfMatcher = MaxPatternHeap
	heapOfCost    = 24 << 10

	heapOfKeyGroup = 8 << 10
	// heapOfKey is for a key of a key group beside its text, also in the caches of Kubernetes objects.
	heapOfKey = 72

	heapOfException = 2 << 10
)

// MaxPatternHeap is the most that one compiled pattern of an expression takes of the heap, in bytes.
const MaxPatternHeap = 24 << 10

// UsageOf returns what a record needs of the budgets. encodedBytes is the size of its encoding. The weight is an estimate
// of the live heap that the record takes in a replica: the sum of what its parts take at most, so it is the same in every
// process.
func UsageOf(r Record, encodedBytes int) Usage {
	weight := heapOfText * encodedBytes
	switch r := r.(type) {
	case *KeyGroup:
		return Usage{KeyBytes: weight + heapOfKeyGroup + heapOfKey*r.Keys.Len()}
	case *Exception:
		return Usage{Exceptions: 1, ExceptionBytes: weight + r.heap()}
	case *Plan:
		return Usage{Policies: 1, Bytes: weight + r.heap()}
	default:
		return Usage{}
	}
}

// heap returns the weight of the exception beside its text. Its key may have as many limits as a policy may have.
func (e *Exception) heap() int {
	if e.Action == ActionAllow {
		return heapOfException
	}
	return heapOfException + MaxLimits*heapOfLimit
}

// heap returns the weight of the plan beside its text.
func (p *Plan) heap() int {
	n := heapOfPlan + heapOfSeries*len(p.Limits) + p.heapOfLimits()
	for i := range p.Matches {
		n += p.Matches[i].heap()
	}
	for i := range p.Key {
		n += heapOfKeyPart + heapOf(p.Key[i].Expression)
	}
	for i := range p.Overrides {
		o := &p.Overrides[i]
		selectors := len(o.Keys) + len(o.CIDRs) + len(o.Groups)
		if p.CountsAddresses() {
			selectors += len(o.Keys) // the networks of addresses
		}
		n += heapOfOverride + heapOfSelector*selectors + heapOf(o.When)
	}
	if p.Reservations.Cost != "" {
		n += heapOfCost
	}
	return n
}

// heapOfLimits returns the weight of the numbers of all limits. There is a further copy of each for candidates, and one
// while failureMode Local decides.
func (p *Plan) heapOfLimits() int {
	variants, copies := 1, 1
	for i := range p.Overrides {
		if p.Overrides[i].Action == ActionLimit {
			variants++
		}
	}
	if len(p.Candidates) > 0 {
		copies++
	}
	if p.FailureMode == FailLocal {
		copies++
	}
	return heapOfLimit * len(p.Limits) * variants * copies
}

// heap returns the weight of the match beside its text.
func (m *Match) heap() int {
	patterns := len(m.Targets) + len(m.Hosts) + len(m.Methods) + len(m.Paths) +
		len(m.Headers) + len(m.QueryParameters) + len(m.Descriptors)
	return heapOfMatch + heapOfPattern*patterns + heapOfExcept*m.Exceptions() + heapOf(m.When)
}

// heapOf returns the weight of a compiled expression, 0 for none.
func heapOf(expression string) int {
	if expression == "" {
		return 0
	}
	return heapOfExpression + heapOfExpressionText*len(expression) + heapOfMatcher*strings.Count(expression, "matches")
}
