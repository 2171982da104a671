// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// section returns the text of a page under the heading, up to the next one.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(text), "\n"+heading+"\n")
	g.Expect(found).To(BeTrue(), heading)
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// shellLines returns the lines of the sh blocks that neither connect to a cluster nor get a token from one.
func shellLines(text string) (lines []string) {
	inside := false
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```sh"
		case inside && !strings.HasPrefix(line, "kubectl") && !strings.HasPrefix(line, "token=") && !strings.HasPrefix(line, "weir="):
			lines = append(lines, line)
		}
	}
	return lines
}

// The steps without the plugin: inspect, unblock, verify, block, as printed.
func TestStepsWithoutThePlugin(t *testing.T) {
	g, s := NewWithT(t), startOnCall(t)
	s.attack("user-42", "192.0.2.1")
	script := strings.Join(shellLines(section(t, "runbook.md", "### Call Weir without the plugin")), "\n")
	g.Expect(strings.Count(script, "curl")).To(Equal(4), script)
	script = strings.ReplaceAll(script, "localhost:8080", strings.TrimPrefix(s.url, "http://"))
	cmd := testenv.CommandContext(t.Context(), "bash", "-euc", script)
	cmd.Env = append(os.Environ(), "weir="+s.flags[1], "token=token")
	out, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(string(out)).To(MatchRegexp(`(?s)"blocked":true,"blockedBy":"burst".*\{"found":true\}.*HTTP/1.1 429.*"reason":"LimitExceeded".*\{"found":true\}`))
	g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Blocked"), "the last step blocks the key")
}
