// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"slices"
	"strings"
)

const (
	// maxSteps is the most steps of one review. A step compares one key, or one value of a match with one request.
	maxSteps = 1 << 20
	// checkSteps is the number of steps between two looks at Review.Ended.
	checkSteps = 1 << 10
)

// Review is one review of an object, which compares it with other objects of its Namespace. It bounds the work:
// a tenant decides how many these are and how large. Its zero value has done no step. It is for one goroutine.
type Review struct {
	// Ended ends the review before maxSteps; nil never does.
	Ended <-chan struct{}

	steps      int
	over       bool
	unfinished []string // what was not compared
}

// Step reports whether the review may do n more steps. Otherwise it is over: Step notes what is not compared, and returns
// false from then on.
func (r *Review) Step(n int, what string) bool {
	if next := r.steps + n; r.over || next > maxSteps || next/checkSteps != r.steps/checkSteps && r.hasEnded() {
		r.over = true
	} else {
		r.steps = next
	}
	if r.over && !slices.Contains(r.unfinished, what) {
		r.unfinished = append(r.unfinished, what)
	}
	return !r.over
}

// Steps returns the number of steps that the review has done.
func (r *Review) Steps() int { return r.steps }

func (r *Review) hasEnded() bool {
	select {
	case <-r.Ended:
		return true
	default:
		return false
	}
}

// Unfinished returns one warning of what the review did not compare before it was over, none if it compared everything.
func (r *Review) Unfinished() []string {
	if len(r.unfinished) == 0 {
		return nil
	}
	return []string{"spec: not compared with the whole Namespace, which is too large for one review: " + strings.Join(r.unfinished, ", ") + " are unchecked"}
}
