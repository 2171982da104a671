// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
)

// CONTRIBUTING.md lists the phases of CI in their order, with their arguments.
func TestContributingListsThePhases(t *testing.T) {
	g := NewWithT(t)
	phases := found(read(g, ".ci/run"), `(?m)^ *phase (make .+)$`)
	g.Expect(len(phases)).To(BeNumerically(">", 5))
	section := regexp.MustCompile(`(?s)## What CI runs\n.*?\n## `).FindString(read(g, "CONTRIBUTING.md"))
	g.Expect(found(section, "(?m)^\\| `(make [^`]+)` \\|")).To(Equal(phases))
}

// found returns what the group of the pattern matches in the text.
func found(text, pattern string) (all []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

func read(g *WithT, path string) string {
	text, err := os.ReadFile(filepath.Join(root, path))
	g.Expect(err).NotTo(HaveOccurred())
	return string(text)
}
