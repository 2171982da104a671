// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// logIn sends a login of the account to the manager, as a proxy would, and returns the reason of the decision.
func logIn(t *testing.T, url, account string) string {
	t.Helper()
	g := NewWithT(t)
	response, err := http.Post(url+"/v1/check", "application/json", strings.NewReader(fmt.Sprintf(
		`{"attributes":{"method":"POST","host":"shop.example","path":"/login","headers":{"x-account":%q},"remoteAddress":"192.0.2.1"}}`, account)))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	var decision struct{ Reason string }
	g.Expect(json.NewDecoder(response.Body).Decode(&decision)).To(Succeed())
	return decision.Reason
}

// A broken edit: the page shows the generation in force and the reason, and the client is limited by the last good
// plan until the policy is repaired.
func TestBrokenEditIsAsPrinted(t *testing.T) {
	g := NewWithT(t)
	_, url := startManager(t)
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
		kubectl(t, "wait", "-n", "shop", "--for=condition="+condition, "rlpol/login", "--timeout="+timeout)
	}
	apply("Ready")
	apply("Stalled", `paths: ["/login"]`, `paths: ["/login//x"]`, "threshold: 5", "threshold: 50")
	printed := false
	for _, b := range testenv.ConsoleBlocks(t, "runbook.md") {
		for _, step := range b.Steps {
			args, isGet := strings.CutPrefix(step.Command, "kubectl get rlpol login ")
			if isGet && strings.HasSuffix(args, "-o wide") {
				got := kubectl(t, append([]string{"get", "rlpol", "login"}, strings.Fields(args)...)...)
				g.Expect(testenv.IsSameOutput(got, step.Output)).To(BeTrue(), got)
				printed = true
			}
		}
	}
	g.Expect(printed).To(BeTrue(), "the page prints it")
	for range 5 { // as in the plan in force
		logIn(t, url, "user-42")
	}
	g.Expect(logIn(t, url, "user-42")).To(Equal("Blocked"))

	apply("Ready", "threshold: 5", "threshold: 50")
	for range 10 {
		g.Expect(logIn(t, url, "user-43")).To(Equal("Allowed"), "the repaired plan is in force")
	}
}
