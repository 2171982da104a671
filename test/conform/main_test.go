// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestFlags(t *testing.T) {
	for args, problem := range map[string]string{
		"--keys 0":                         "--keys and --rounds must be at least 1",
		"--rounds -1":                      "--keys and --rounds must be at least 1",
		"--scenarios (":                    "--scenarios: ",
		"--systems (":                      "--systems: ",
		"edge":                             `unknown argument "edge"`,
		"--weir none":                      "no system or no scenario has such a name",
		"--weir /bin/true --scenarios x":   "no system or no scenario has such a name",
		"--weir /bin/true --systems ratel": "no system or no scenario has such a name",
	} {
		t.Run(args, func(t *testing.T) {
			t.Setenv("RATELIMIT_BIN", "")
			t.Setenv("GUBERNATOR_BIN", "")
			t.Setenv("LIMITADOR_BIN", "")
			NewWithT(t).Expect(conform(t.Context(), strings.Fields(args), t.Output())).To(MatchError(ContainSubstring(problem)))
		})
	}
}

func TestList(t *testing.T) {
	g := NewWithT(t)
	out := &strings.Builder{}
	g.Expect(conform(t.Context(), []string{"--list", "--weir", "/bin/true", "--gubernator", "/bin/true", "--scenarios", "exact-.*"}, out)).To(Succeed())
	g.Expect(out.String()).To(And(ContainSubstring("exact-4"), Not(ContainSubstring("edge")), ContainSubstring("weir, FixedWindow"), ContainSubstring("gubernator, GLOBAL")))
}
