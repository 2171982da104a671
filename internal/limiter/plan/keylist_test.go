// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestKeyList(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{
		"several":       {"acme", "globex", "<ü>\u2028"},
		"empty strings": {"", "", "a", ""},
		"one":           {"acme"},
		"none":          {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			list := plan.NewKeyList(keys...)
			g.Expect(list.Len()).To(Equal(len(keys)))
			g.Expect(slices.AppendSeq([]string{}, list.All())).To(Equal(keys))
			for i, key := range keys {
				g.Expect(list.At(i)).To(Equal(key))
			}
			encoded, err := json.Marshal(list)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(json.Marshal(keys)).To(Equal(encoded), "the same as of strings")
			var decoded plan.KeyList
			g.Expect(json.Unmarshal(encoded, &decoded)).To(Succeed())
			g.Expect(decoded).To(Equal(list))
		})
	}
	var list plan.KeyList
	NewWithT(t).Expect(json.Unmarshal([]byte(`[1]`), &list)).NotTo(Succeed())
}
