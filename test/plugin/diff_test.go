// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const written = `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: api, namespace: shop}
spec:
  key: [{type: Principal, principal: {}}]
  limits:
  - {name: hourly, algorithm: FixedWindow, threshold: 100, window: 1h}
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitKeyGroup
metadata: {name: gold, namespace: shop}
spec: {group: gold, keys: [acme, globex]}
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitException
metadata: {name: launch, namespace: shop}
spec: {policy: api, key: [acme], until: "UNTIL", limits: [{name: hourly, threshold: 200}]}
`

// What users have written is compared, in all three kinds.
func TestDiffComparesSpecs(t *testing.T) {
	g := NewWithT(t)
	server, kubeconfig := startServer(t)
	server.CreateNamespace("shop")
	server.CreateNamespace("weir-system")
	text := strings.ReplaceAll(written, "UNTIL", time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
	file := filepath.Join(t.TempDir(), "objects.yaml")
	write := func(replacements ...string) {
		g.Expect(os.WriteFile(file, []byte(strings.NewReplacer(replacements...).Replace(text)), 0o600)).To(Succeed())
	}
	write()
	token := startInPod(t, server.Client(), kubeconfig)
	diff := func() (code int, out string) {
		code, out, complaint := command(t, append([]string{"diff", "-f", file}, token...)...)
		g.Expect(complaint).To(BeEmpty())
		return code, out
	}
	g.Eventually(func() string { // fails until the manager is ready
		_, out, complaint := command(t, append([]string{"diff", "-f", file}, token...)...)
		return out + complaint
	}, timeout).Should(Equal("shop/api: new\nRateLimitKeyGroup shop/gold: new\nRateLimitException shop/launch: new\n"))

	kubectl(t, "apply", "--server-side", "-f", file)
	code, out := diff()
	g.Expect(out).To(Equal("shop/api: no difference\nRateLimitKeyGroup shop/gold: no difference\nRateLimitException shop/launch: no difference\n"))
	g.Expect(code).To(Equal(0))

	write("  limits:\n  -", "  exceptions: {maxFactor: 1000, actions: [Limit, Allow]}\n  limits:\n  -",
		"[acme, globex]", "[globex, initech]", "hourly, threshold: 200", "hourly, threshold: 300")
	code, out = diff()
	g.Expect(out).To(And(
		MatchRegexp(`(?m)^shop/api:\n  exceptions\.actions\[0\] +\(none\) -> "Limit"\n  exceptions\.actions\[1\] +\(none\) -> "Allow"\n  exceptions\.maxFactor +\(none\) -> 1000\n`),
		MatchRegexp(`(?m)^RateLimitKeyGroup shop/gold:\n  keys\.acme +true -> \(none\)\n  keys\.initech +\(none\) -> true\n`),
		MatchRegexp(`(?m)^RateLimitException shop/launch:\n  limits\[hourly\]\.threshold +200 -> 300\n$`)))
	g.Expect(code).To(Equal(1))
}
