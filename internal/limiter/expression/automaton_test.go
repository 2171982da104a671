// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

var texts = []string{
	"", "a", "b", "ab", "abc", "aab", "z", "a\nb", "\n", "É", "é", "ſ", "K", "k", "\xff", "a\xffb", "\uFFFD", "日本", "Bot/1.0", "my SPIDER",
	"/v1/orders/7", "/v12/orders/", "/v/orders/", "crawlespider", strings.Repeat("a", 50) + "z", "\U0001F600",
}

var patterns = []string{
	"", "a", "^a", "a$", "^a$", "^$", "$^", "$", "^", "()", "a|", "(|a)$", "a*", "^a*$", "a+b", "(a|ab)(c|bcd)?$", ".", "^.$", "(?s)^.$", "(?s).*", "^.*$",
	"(?i)(bot|crawler|spider)", "(?i)^k$", "(?i)s", "[^a]", "^[^a]$", "[a-z]+[0-9]", "\\pL", "^\\PL+$", "\\d+", "(a|aa|aaa|aaaa){1,40}z",
	"^/v[0-9]+/orders/.*$", "x{0}", "a{2,3}$", "\\x{FFFD}", "^\\x{FFFD}$", "[[:alpha:]]$", "a.b", "(^a|b$)", "(a$|^b)c?", "[^\\x00-\\x{10FFFF}]", "\\z", "\\Aab\\z", "(?U)a+?$",
}

func TestAutomatonMatchesLikeRegexp(t *testing.T) {
	for _, pattern := range patterns {
		for _, text := range texts {
			got, want, ok := expression.MatchBoth(pattern, text)
			NewWithT(t).Expect(ok).To(BeTrue(), pattern)
			NewWithT(t).Expect(got).To(Equal(want), "%q on %q", pattern, text)
		}
	}
}

// Package regexp matches these.
func TestNoAutomaton(t *testing.T) {
	for _, pattern := range []string{`\bfoo\b`, `\B`, `(?m)^a`, `(?m)a$`, `(a{1,50}){1,15}z`, `a.{30}z`} {
		_, _, ok := expression.MatchBoth(pattern, "")
		NewWithT(t).Expect(ok).To(BeFalse(), pattern)
	}
}

func FuzzAutomaton(f *testing.F) {
	for i, pattern := range patterns {
		f.Add(pattern, texts[i%len(texts)])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if got, want, ok := expression.MatchBoth(pattern, text); ok && got != want {
			t.Errorf("%q on %q: %v", pattern, text, got)
		}
	})
}

// A pattern of 35 characters must not keep what was needed to build its automaton: 200 KB each, of which
// the policies of a Namespace may have thousands.
func TestPatternsTakeLittleMemory(t *testing.T) {
	g := NewWithT(t)
	const count = 50
	memory := func() int64 {
		runtime.GC()
		runtime.GC() // pools keep what they have for one cycle
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, pattern := range []string{
		`(?i)\\pL{1,29}z`, `.{184}`, `[ab]{117}[^c]*z`, `(a|b|c)[0-9a-f]{8}x`, `\\b\\pL`, `^\\b\\pL\\b`, `\\b(?:abcdefghijk){14}`,
	} {
		text := `"".matches("` + pattern + `")`
		mustCompile(t, text)
		var kept []*expression.Expression[bool]
		before := memory()
		for range count {
			kept = append(kept, mustCompile(t, text))
		}
		each := (memory() - before) / count
		runtime.KeepAlive(kept)
		t.Logf("%s: %d bytes", pattern, each)
		g.Expect(each).To(BeNumerically("<", 7<<10+plan.MaxPatternHeap), pattern)
	}
}

// Package regexp takes any memory for a pattern that no automaton matches: 4 MiB for the first of these.
func TestLargePatternsAreRejected(t *testing.T) {
	g := NewWithT(t)
	for _, pattern := range []string{`^(?:[\\pL\\pN]){1,200}$`, `(?:abcdefghijklmnopqrstuvwxyz){1000}`, `[\\pL\\pN]{1,999}`} {
		_, err := expression.Compile[bool](`"".matches("` + pattern + `")`)
		g.Expect(err).To(MatchError(ContainSubstring("bytes of memory, at most 24576 are allowed")), pattern)
	}
}
