// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

func FuzzKeyParts(f *testing.F) {
	f.Add("alice", "192.0.2.1")
	f.Add("-", "%")
	f.Add("", "{}|:# \x00\x1b\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, parts := range [][]string{{a}, {a, b}} {
			if slices.ContainsFunc(parts, func(p string) bool { return len(p) > quota.MaxValueBytes }) {
				continue
			}
			got := quota.EncodeKey(parts...).Parts()
			if len(parts) == 1 && a == "" {
				parts = nil // the shared budget
			}
			NewWithT(t).Expect(got).To(Equal(parts))
		}
	})
}
