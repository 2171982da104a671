// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package seeds_test

import (
	"flag"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv/seeds"
)

func TestSeedsAreScaled(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("WEIR_TEST_FIRST_SEED", "")
	short := flag.Lookup("test.short")
	before := short.Value.String()
	t.Cleanup(func() { _ = short.Value.Set(before) })

	g.Expect(short.Value.Set("true")).To(Succeed())
	inMemory, onServer := 6, 3
	if seeds.Race {
		inMemory, onServer = 2, 1
	}
	g.Expect(slices.Collect(seeds.InMemory(60))).To(HaveLen(inMemory))
	g.Expect(slices.Collect(seeds.OnServer(8))).To(HaveLen(onServer))
	g.Expect(slices.Collect(seeds.InMemory(1))).To(Equal([]uint64{0}), "never none")

	g.Expect(short.Value.Set("false")).To(Succeed())
	t.Setenv("WEIR_TEST_FIRST_SEED", "70")
	g.Expect(slices.Collect(seeds.OnServer(3))).To(Equal([]uint64{70, 71, 72}))
	t.Setenv("WEIR_TEST_FIRST_SEED", "x")
	g.Expect(func() { _ = slices.Collect(seeds.InMemory(3)) }).To(PanicWith(ContainSubstring("WEIR_TEST_FIRST_SEED")))
}
