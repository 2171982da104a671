// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

func FuzzKeyParts(f *testing.F) {
	f.Add("alice", "192.0.2.1")
	f.Add("-", "%")
	f.Add("", "{}|:# \x00\x1b\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, parts := range [][]string{{a}, {a, b}} {
			if slices.ContainsFunc(parts, func(p string) bool { return len(p) > store.MaxValueBytes }) {
				continue
			}
			got := store.EncodeKey(parts...).Parts()
			if len(parts) == 1 && a == "" {
				parts = nil // the shared budget
			}
			NewWithT(t).Expect(got).To(Equal(parts))
		}
	})
}
