// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv/kube"
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
	script := strings.Join(shellLines(section(t, "runbook.md", "### Without the plugin")), "\n")
	g.Expect(strings.Count(script, "curl")).To(Equal(4), script)
	script = strings.ReplaceAll(script, "localhost:8080", strings.TrimPrefix(s.url, "http://"))
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", script)
	cmd.Env = append(os.Environ(), "weir="+s.flags[1], "token=token")
	out, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(string(out)).To(MatchRegexp(`(?s)"blocked":true,"blockedBy":"burst".*\{"found":true\}.*HTTP/1.1 429.*"reason":"LimitExceeded".*\{"found":true\}`))
	g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Blocked"), "the last step blocks the key")
}

// kubectl runs kubectl against the API server of KUBECONFIG and returns its output.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), kube.Kubectl(t), args...).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(out))
	return string(out)
}

// A broken edit: the page shows the generation in force and the reason, and the client is limited by the last good
// plan until the policy is repaired.
func TestBrokenEditIsAsPrinted(t *testing.T) {
	g := NewWithT(t)
	_, url := startManager(t)
	s := &standalone{t: t, url: url}
	sample, err := os.ReadFile("../../config/samples/login-abuse.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "login.yaml")
	apply := func(condition string, replacements ...string) {
		t.Helper()
		text := strings.NewReplacer(replacements...).Replace(string(sample))
		if len(replacements) > 0 {
			g.Expect(text).NotTo(Equal(string(sample)), "something was replaced")
		}
		g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		kubectl(t, "apply", "-f", file)
		kubectl(t, "wait", "-n", "shop", "--for=condition="+condition, "rlpol/login", "--timeout=30s")
	}
	apply("Ready")
	apply("Stalled", `paths: ["/login"]`, `paths: ["/login//x"]`, "threshold: 5", "threshold: 50")
	for _, page := range []string{"runbook.md", "spec/ratelimitpolicy.md"} {
		printed := false
		for _, b := range consoleBlocks(t, page) {
			for _, step := range b.steps {
				args, isGet := strings.CutPrefix(step.command, "kubectl get rlpol login ")
				if isGet && strings.HasSuffix(args, "-o wide") {
					got := kubectl(t, append([]string{"get", "rlpol", "login"}, strings.Fields(args)...)...)
					g.Expect(isSame(got, step.output)).To(BeTrue(), page+"\n"+got)
					printed = true
				}
			}
		}
		g.Expect(printed).To(BeTrue(), page)
	}
	s.attack("user-42", "192.0.2.1") // five attempts, as in the plan in force

	apply("Ready", "threshold: 5", "threshold: 50")
	for range 10 {
		g.Expect(s.logIn("user-43", "192.0.2.1")).To(Equal("Allowed"), "the repaired plan is in force")
	}
}
