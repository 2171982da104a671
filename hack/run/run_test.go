// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/process"
)

// The first mistake is rejected as in production, and the samples are accepted.
func TestRunJudgesPoliciesLikeTheChart(t *testing.T) {
	t.Chdir("../..")
	g, out := NewWithT(t), &testenv.Log{}
	at := addresses{http: testenv.FreeAddr(t), grpc: testenv.FreeAddr(t), metrics: testenv.FreeAddr(t), operator: testenv.FreeAddr(t)}
	weir := process.Weir(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, weir, at, out) }()
	t.Cleanup(func() {
		stop()
		NewWithT(t).Eventually(ended, "60s").Should(Receive(Succeed()))
	})
	g.Eventually(out.String, "120s").Should(ContainSubstring("Ctrl-C stops"))

	_, rest, _ := strings.Cut(out.String(), "KUBECONFIG=")
	kubeconfig, _, _ := strings.Cut(rest, "\n")
	apply := func(matches, window string) string {
		cmd := testenv.CommandContext(t.Context(), kube.Kubectl(t), "apply", "--kubeconfig", kubeconfig, "-f", "-")
		cmd.Stdin = strings.NewReader(`{"apiVersion": "ratelimit.weir.dev/v1alpha1", "kind": "RateLimitPolicy", "metadata": {"name": "first", "namespace": "shop"},
			"spec": {"matches": [` + matches + `], "limits": [{"name": "l", "algorithm": "FixedWindow", "threshold": 1, "window": "` + window + `"}]}}`)
		output, _ := cmd.CombinedOutput()
		return string(output)
	}
	g.Expect(apply(`{"paths": ["/*"]}`, "1m")).To(ContainSubstring("spec.matches[0]: Forbidden: must set hosts or domain, within the grant of the Namespace"))
	g.Expect(apply(`{"hosts": ["bank.example"]}`, "1m")).To(ContainSubstring("bank.example is not granted to the Namespace"))
	g.Expect(apply(`{"hosts": ["shop.example"]}`, "7d")).To(ContainSubstring("7d: write 168h"))
	g.Expect(apply(`{"hosts": ["new.shop.example"]}`, "1m")).To(Equal("ratelimitpolicy.ratelimit.weir.dev/first created\n"))

	for address, path := range map[string]string{at.http: "/v1/policies", at.metrics: "/metrics", at.operator: "/console/login"} {
		response, err := http.Get("http://" + address + path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK), path)
	}
}

// The command of the documentation applies what make run applies.
func TestInstallPageAppliesTheSamples(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../docs/install.md")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(page)).To(ContainSubstring("\nkubectl apply -f " + namespaces + " -f " + samples + "\n"))
}

// make run, make standalone and the command of the README listen on loopback only.
func TestCommandsListenOnLoopback(t *testing.T) {
	g := NewWithT(t)
	for _, value := range defaultAddresses.flags() {
		g.Expect(value).To(Or(HavePrefix("--"), HavePrefix("127.0.0.1:")))
	}
	command := "go run ./cmd/weir standalone --policies config/samples --http-address " + defaultAddresses.http +
		" --grpc-address " + defaultAddresses.grpc + " --metrics-address " + defaultAddresses.metrics + "\n"
	for _, file := range []string{"README.md", "Makefile"} {
		text, err := os.ReadFile("../../" + file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(regexp.MustCompile(`[ \t]*\\\n[ \t]*`).ReplaceAllString(string(text), " ")).To(ContainSubstring(command), file)
	}
}
