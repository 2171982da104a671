// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// walkStart begins a script: at its end the shell ends the servers that it has started.
const walkStart = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nexec 2>&1\n"

// endOfStep separates the outputs of two commands.
const endOfStep = "== end of step\n"

// Each walk of docs/migration.md runs as printed, with other addresses: its yaml blocks are files named in their first lines.
func TestWalksOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.ModuleRoot(t), "docs", "migration.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	steps := map[string][]testenv.ConsoleStep{}
	for _, block := range testenv.ConsoleBlocks(t, "migration.md") {
		steps[block.Heading] = append(steps[block.Heading], block.Steps...)
	}
	for section := range strings.SplitSeq(string(page), "\n## ") {
		heading, text, _ := strings.Cut(section, "\n")
		if len(steps[heading]) > 0 {
			t.Run(heading, func(t *testing.T) { walk(t, text, steps[heading]) })
			delete(steps, heading)
		}
	}
	NewWithT(t).Expect(steps).To(BeEmpty(), "blocks that are in no section")
}

// walk runs the steps in a folder with the files of the section.
func walk(t *testing.T, section string, steps []testenv.ConsoleStep) {
	t.Helper()
	g := NewWithT(t)
	folder, address := t.TempDir(), testenv.FreeAddr(t)
	for _, block := range testenv.CodeBlocks(section, "yaml") {
		if name := regexp.MustCompile(`^# ([a-z-]+\.yaml)\n`).FindStringSubmatch(block); name != nil {
			g.Expect(os.WriteFile(filepath.Join(folder, name[1]), []byte(block), 0o600)).To(Succeed())
		}
	}
	var script strings.Builder
	script.WriteString(walkStart)
	for _, step := range steps {
		command := strings.ReplaceAll(step.Command, "127.0.0.1:8080", address)
		if server, isServer := strings.CutSuffix(command, " &"); isServer {
			command = fmt.Sprintf("%s --grpc-address= --metrics-address= --operator-address= >server.log 2>&1 & "+
				"until curl --silent --fail --output /dev/null http://%s/readyz; do kill -0 $!; done", server, address)
		}
		fmt.Fprintf(&script, "%s\necho '%s'\n", command, strings.TrimSuffix(endOfStep, "\n"))
	}
	shell := testenv.CommandContext(t.Context(), "bash", "-eu", "-c", script.String())
	shell.Dir = folder
	shell.Env = append(os.Environ(), "PATH="+filepath.Dir(process.Weir(t))+":"+os.Getenv("PATH"))
	out, err := shell.Output()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	outputs := strings.Split(string(out), endOfStep)
	g.Expect(outputs).To(HaveLen(len(steps) + 1))
	for i, step := range steps {
		g.Expect(outputs[i]).To(Equal(step.Output), step.Command)
	}
}
