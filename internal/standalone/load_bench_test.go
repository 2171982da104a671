// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"fmt"
	"testing"

	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// BenchmarkLoad loads policies with two limits and a host of their own, one in a file: first without anything loaded, then
// again without a change.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 2000, 20_000} {
		b.Run(fmt.Sprintf("first=%d", n), func(b *testing.B) {
			dir := testpolicy.WriteNumbered(b, n)
			for b.Loop() {
				files := newPolicyFiles([]string{dir})
				if snapshot, errs := files.load(b.Context()); len(errs) > 0 || len(snapshot.Plans()) != n {
					b.Fatal(errs)
				}
			}
		})
		b.Run(fmt.Sprintf("again=%d", n), func(b *testing.B) {
			files := newPolicyFiles([]string{testpolicy.WriteNumbered(b, n)})
			files.load(b.Context())
			for b.Loop() {
				if snapshot, errs := files.load(b.Context()); len(errs) > 0 || snapshot != nil {
					b.Fatal(errs)
				}
			}
		})
	}
}
