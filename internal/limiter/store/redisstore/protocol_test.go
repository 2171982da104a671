// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"io/fs"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// Go and Lua have the same names: a Lua file uses every constant, and no other name of that form.
func TestConstantsOfLua(t *testing.T) {
	g := NewWithT(t)
	names, err := fs.Glob(sources, "*.lua")
	g.Expect(err).NotTo(HaveOccurred())
	used := map[string]bool{}
	for _, name := range names {
		text, err := sources.ReadFile(name)
		g.Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(line, "--")
			for _, constant := range constantName.FindAllString(code, -1) {
				g.Expect(constants).To(HaveKey(constant), name)
				used[constant] = true
			}
		}
	}
	for constant := range constants {
		g.Expect(used).To(HaveKey(constant))
	}
	g.Expect(func() { withConstants("ENTRY_MISSPELLED") }).To(Panic())
	g.Expect(withConstants("band(flags, ENTRY_PEEK)")).To(Equal("band(flags, 4)"))
}
