// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// Patterns that are taken for disjoint have no text in common, and a pattern that covers another one has all its texts.
func TestPairsOfPatterns(t *testing.T) {
	g := NewWithT(t)
	g.Expect(areDisjoint("/api/*/action", "*.example.com")).To(BeTrue())
	g.Expect(areDisjoint("a*", "b*")).To(BeTrue())
	g.Expect(areDisjoint("a*b", "ab")).To(BeFalse())
	g.Expect(areDisjoint("*", "anything")).To(BeFalse())

	g.Expect(covers("/api/*/action", "/api/*/resource/*/action")).To(BeTrue())
	g.Expect(covers("a*", "*a")).To(BeFalse())

	r := rand.New(rand.NewPCG(3, 3))
	text := func(letters string, most int) string {
		var b strings.Builder
		for range r.IntN(most + 1) {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	disjoint, covered := 0, 0
	for range 20_000 {
		a, b, value := text("ab*", 4), text("ab*", 4), text("ab", 6)
		if areDisjoint(a, b) {
			disjoint++
			g.Expect(fits(value, a) && fits(value, b)).To(BeFalse(), "%q has %q and %q", value, a, b)
		}
		if covers(a, b) && fits(value, b) {
			covered++
			g.Expect(fits(value, a)).To(BeTrue(), "%q has %q, but not %q", value, b, a)
		}
	}
	g.Expect(disjoint).To(BeNumerically(">", 1000))
	g.Expect(covered).To(BeNumerically(">", 100))
}

// fits reports whether a value has a pattern, by trying every length for each "*".
func fits(value, pattern string) bool {
	begin, rest, isPattern := strings.Cut(pattern, "*")
	if !isPattern {
		return value == pattern
	}
	value, found := strings.CutPrefix(value, begin)
	for i := 0; found && i <= len(value); i++ {
		if fits(value[i:], rest) {
			return true
		}
	}
	return false
}
