// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Candidates returns the number of matches that the index finds for a request.
func (s *Snapshot) Candidates(a *plan.Attributes) int {
	var f finding
	s.index.root.find(&f, a)
	return len(f.entries())
}

// IndexCopies returns the number of copies of matches in the index.
func (s *Snapshot) IndexCopies() (n int) {
	s.index.root.visit(func(*indexEntry) { n++ })
	return n
}
