// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// probeCode returns a code of POST /v1/probes, whose token is "secret".
func (w *world) probeCode(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.weir+"/v1/probes", strings.NewReader(`{"namespace":"shop","method":"GET"}`))
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Authorization", "Bearer secret")
	response, err := http.DefaultClient.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	var code struct{ Code string }
	g.Expect(json.NewDecoder(response.Body).Decode(&code)).To(Succeed())
	return code.Code
}

// head sends a HEAD request for the host through the proxy, with the code unless it is "".
func head(t *testing.T, w *world, code string) answer {
	t.Helper()
	g := NewWithT(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+w.proxy+"/cart?page=2", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	r.Host = "shop.example"
	if code != "" {
		r.Header.Set("X-Weir-Probe", code)
	}
	response, err := clientFrom(t, "127.0.0.2").Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	_ = response.Body.Close()
	return answer{status: response.StatusCode, header: response.Header}
}

// Each proxy, configured as printed, passes a probe to Weir and its answer to the client.
func TestProbesThroughProxies(t *testing.T) {
	for name, tc := range map[string]struct {
		start    func(t *testing.T, w *world)
		frontend string
	}{
		"nginx": {func(t *testing.T, w *world) { t.Helper(); startNginx(t, w, nginxServers(t, w)) }, "forward-auth"},
		"Caddy": {func(t *testing.T, w *world) {
			t.Helper()
			_, port, _ := strings.Cut(w.proxy, ":")
			startCaddyWith(t, w, w.block(t, "caddy.md", "caddyfile", "shop.example {", "http://shop.example:"+port+" {"))
		}, "forward-auth"},
		"Envoy": {func(t *testing.T, w *world) { t.Helper(); startEnvoy(t, w, w.printed(t, blocks(t, "envoy.md")[0])) }, "ext_authz"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			token := filepath.Join(t.TempDir(), "token")
			g.Expect(os.WriteFile(token, []byte("secret"), 0o600)).To(Succeed())
			w := newWorldWith(t, []string{"--admin-token-file", token}, `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: shop-carts, namespace: shop}
spec:
  matches: [{hosts: [shop.example], methods: [GET], paths: [/cart]}]
  key: [{type: RemoteAddress, remoteAddress: {}}]
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 10, window: 1h}]
`)
			tc.start(t, w)
			code := w.probeCode(t)
			a := head(t, w, code)
			g.Expect(a.status).To(Equal(http.StatusForbidden))
			var report struct {
				Door, Method, Host, Path, RemoteAddress string
				Policies                                []string
			}
			g.Expect(json.Unmarshal([]byte(a.header.Get("Weir-Probe")), &report)).To(Succeed(), "%v", a.header)
			g.Expect([]string{report.Door, report.Method, report.Host, report.Path, report.RemoteAddress}).
				To(Equal([]string{tc.frontend, "HEAD", "shop.example", "/cart", "127.0.0.2"}))
			want := []string{"shop/burst"} // named by the proxy
			if tc.frontend == "ext_authz" {
				want = []string{"shop/shop-carts"}
			}
			g.Expect(report.Policies).To(Equal(want))
			for _, again := range []string{code, ""} {
				a = head(t, w, again)
				g.Expect(a.status).To(Equal(http.StatusOK))
				g.Expect(a.header).NotTo(HaveKey("Weir-Probe"))
			}
		})
	}
}
