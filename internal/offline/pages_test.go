// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/internal/testenv"
)

// The console blocks of the page about migration run as printed, in a folder with the YAML blocks that begin with "# NAME.yaml".
func TestMigrationPageIsAsPrinted(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.Join(testenv.ModuleRoot(t), "docs", "migration.md"))
	g.Expect(err).NotTo(HaveOccurred())
	blocks := testenv.ConsoleBlocks(t, "migration.md")
	g.Expect(blocks).NotTo(BeEmpty())
	t.Chdir(t.TempDir())
	for _, text := range testenv.CodeBlocks(string(page), "yaml") {
		if name, isFile := strings.CutPrefix(strings.SplitN(text, "\n", 2)[0], "# "); isFile && strings.HasSuffix(name, ".yaml") {
			g.Expect(os.WriteFile(name, []byte(text), 0o600)).To(Succeed())
		}
	}
	for _, b := range blocks {
		for _, step := range b.Steps {
			g.Expect(outputOf(t, step.Words())).To(Equal(step.Output), "%s: %s", b.Heading, step.Command)
		}
	}
}

// outputOf runs "cat FILE", or a command of weir, and returns what a terminal shows. "> FILE" redirects standard output.
func outputOf(t *testing.T, words []string) string {
	t.Helper()
	g := NewWithT(t)
	if words[0] == "cat" {
		text, err := os.ReadFile(words[1])
		g.Expect(err).NotTo(HaveOccurred())
		return string(text)
	}
	weir := &cobra.Command{Use: "weir"}
	weir.AddCommand(offline.NewConvert("weir"), offline.NewValidate("weir"))
	file := ""
	if n := len(words); words[n-2] == ">" {
		words, file = words[:n-2], words[n-1]
	}
	_, out, notes, err := execute(t, weir, "", words[1:]...)
	if err != nil {
		notes += "error: " + err.Error() + "\n"
	}
	if file == "" {
		return notes + out
	}
	g.Expect(os.WriteFile(file, []byte(out), 0o600)).To(Succeed())
	return notes
}
