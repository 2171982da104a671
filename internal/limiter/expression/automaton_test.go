// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/expression"
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
