// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/proxy"
)

// blocks returns the YAML documents of the page, in order.
func blocks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/integrations", page))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var all []string
	for _, block := range testenv.CodeBlocks(string(text), "yaml") {
		all = append(all, strings.Split(strings.TrimSuffix(block, "\n"), "\n---\n")...)
	}
	return all
}

// replace replaces texts, given in pairs. Each must occur.
func replace(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		NewWithT(t).Expect(text).To(ContainSubstring(pairs[i]))
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// socket is an address in a configuration of Envoy.
func socket(t *testing.T, address string) string {
	t.Helper()
	text, err := proxy.EnvoyAddress(address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return text
}

// printed is a printed configuration with the addresses of the world and more time for Weir: on a busy machine a
// request would be admitted without it.
func (w *world) printed(t *testing.T, config string, pairs ...string) string {
	t.Helper()
	return strings.NewReplacer(": 0.1s", ": 60s", "connect_timeout: 0.25s", "connect_timeout: 20s",
		"timeout: 1s", "timeout: 60s").Replace(w.withAddresses(t, config, pairs...))
}

// withAddresses is a printed configuration with the addresses of the world in place of the Services', and with the
// further replacements in pairs.
func (w *world) withAddresses(t *testing.T, config string, pairs ...string) string {
	t.Helper()
	upstream := regexp.MustCompile(`\{address: (shop.shop|models.ai).svc, port_value: 8080}`)
	NewWithT(t).Expect(config).To(MatchRegexp(upstream.String()))
	config = upstream.ReplaceAllString(config, socket(t, w.upstream))
	return replace(t, config, append(pairs,
		"{address: 0.0.0.0, port_value: 8000}", socket(t, w.proxy),
		"{address: weir.weir-system.svc, port_value: 8081}", socket(t, w.grpc))...)
}

// startLimitedUpstream starts an upstream that sets a RateLimit header of its own.
func startLimitedUpstream(t *testing.T, w *world) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"upstream";r=9`)
	}))
	t.Cleanup(server.Close)
	w.upstream = server.Listener.Addr().String()
}

// startEnvoy runs Envoy with the configuration until the test ends. It listens once its clusters
// are ready. It returns the address of the admin interface.
func startEnvoy(t *testing.T, w *world, config string) (admin string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "envoy.yaml")
	NewWithT(t).Expect(os.WriteFile(path, []byte(config), 0o600)).To(Succeed())
	admin = testenv.FreeAddr(t)
	run(t, w.proxy, testenv.Command(proxy.Envoy(t), "--config-path", path, "--disable-hot-restart", "--concurrency", "1",
		"--log-level", "warning", "--service-node", "gateway-1", "--service-cluster", "gateway", "--config-yaml", "admin: {address: {socket_address: "+socket(t, admin)+"}}"))
	return admin
}

// All addresses on these pages are the Service's.
func TestEnvoyPagesNameTheService(t *testing.T) {
	g := NewWithT(t)
	for _, page := range []string{"envoy.md", "istio.md", "envoy-gateway.md"} {
		all := strings.Join(blocks(t, page), "\n")
		g.Expect(all).To(ContainSubstring("weir-system"), page)
		g.Expect(all).To(MatchRegexp(`(port|port_value): 8081\b`), page)
	}
}

// envoyStat returns a counter or gauge of Envoy.
func envoyStat(t *testing.T, admin, name string) float64 {
	t.Helper()
	a := get(t, http.DefaultClient, "http://"+admin+"/stats?filter="+url.QueryEscape("^"+regexp.QuoteMeta(name)+"$"))
	value, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(a.body, name+":")), 64)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s: %q", name, a.body)
	return value
}
