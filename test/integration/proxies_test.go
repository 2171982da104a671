// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/proxy"
)

// startNginx runs an unprivileged nginx with the given servers.
func startNginx(t *testing.T, w *world, servers string) {
	t.Helper()
	run(t, w.proxy, proxy.Nginx(t, servers))
}

func startCaddy(t *testing.T, w *world) {
	t.Helper()
	startCaddyWith(t, w, w.block(t, "caddy.md", "caddyfile", "shop.example {", "http://"+w.proxy+" {"))
}

func startCaddyWith(t *testing.T, w *world, config string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "Caddyfile")
	NewWithT(t).Expect(os.WriteFile(path, []byte(config), 0o600)).To(Succeed())
	cmd := testenv.Command(proxy.Caddy(t), "run", "--config", path, "--adapter", "caddyfile")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "CADDY_ADMIN="+testenv.FreeAddr(t))
	run(t, w.proxy, cmd)
}

func nginxServers(t *testing.T, w *world) string {
	t.Helper()
	return w.block(t, "nginx.md", "nginx", "listen 80;", "listen "+w.proxy+";")
}

// limited checks the responses through a proxy: three requests are allowed, the fourth is
// denied with the headers for a retry, a forged client address gets no new budget, and
// another client has its own.
func limited(t *testing.T, w *world) {
	t.Helper()
	g := NewWithT(t)
	client := clientFrom(t, "127.0.0.2")
	url := "http://" + w.proxy + "/cart?page=2"
	for i := range 3 {
		a := get(t, client, url, "X-Api-Key", "k")
		g.Expect(a.status).To(Equal(http.StatusOK), "request %d: %s", i, a.body)
		g.Expect(a.body).To(Equal("GET /cart?page=2 for k"))
	}
	for _, headers := range [][]string{
		nil,
		{"X-Forwarded-For", "203.0.113.1"},
		{"X-Forwarded-For", "203.0.113.2, 127.0.0.1"},
		{"X-Forwarded-For", "]"},
		{"X-Real-IP", "203.0.113.3"},
		{"X-Forwarded-Uri", "/else", "X-Forwarded-Method", "PUT"},
	} {
		a := get(t, client, url, headers...)
		g.Expect(a.status).To(Equal(http.StatusTooManyRequests), "%v", headers)
		g.Expect(a.header.Get("Retry-After")).To(MatchRegexp(`^([1-9]|10)$`))
		g.Expect(a.header.Values("RateLimit")).To(HaveExactElements(MatchRegexp(`^"shop/burst-short";r=0;t=([1-9]|10)$`)))
		g.Expect(a.header.Values("RateLimit-Policy")).To(HaveExactElements(`"shop/burst-short";q=3;w=10`))
	}
	a := get(t, clientFrom(t, "127.0.0.3"), url)
	g.Expect(a.status).To(Equal(http.StatusOK), "another client has a budget of its own")
}

func TestNginx(t *testing.T) {
	w := newWorld(t)
	startNginx(t, w, nginxServers(t, w))
	limited(t, w)
	a := get(t, clientFrom(t, "127.0.0.4"), "http://"+w.proxy+"/")
	g := NewWithT(t)
	g.Expect(a.header.Get("RateLimit")).To(MatchRegexp(`^"shop/burst-short";r=2;t=10$`), "allowed requests have the header too")
}

// Behind another proxy nginx forwards the X-Forwarded-For list, and Weir finds the client
// in it.
func TestNginxThatForwardsTheList(t *testing.T) {
	w := newWorld(t)
	servers := nginxServers(t, w)
	appended := strings.Replace(servers, "X-Forwarded-For    $remote_addr", "X-Forwarded-For    $proxy_add_x_forwarded_for", 1)
	NewWithT(t).Expect(appended).NotTo(Equal(servers))
	startNginx(t, w, appended)
	limited(t, w)
}

// A denial without a retry time stays a 403.
func TestNginxKeepsForbidden(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	servers := nginxServers(t, w)
	nameless := strings.Replace(servers, "policy=shop/burst", "policy=shop/no-nameless", 1)
	g.Expect(nameless).NotTo(Equal(servers))
	startNginx(t, w, nameless)
	a := get(t, clientFrom(t, "127.0.0.2"), "http://"+w.proxy+"/")
	g.Expect(a.status).To(Equal(http.StatusForbidden))
	g.Expect(a.header).NotTo(HaveKey("Retry-After"))
	a = get(t, clientFrom(t, "127.0.0.2"), "http://"+w.proxy+"/", "X-Account", "dave")
	g.Expect(a.status).To(Equal(http.StatusOK))
}

// A denial by failureMode Closed is a 503 with a time to retry, one by Local a 429.
func TestNginxWithoutRedis(t *testing.T) {
	for degraded, want := range map[string]int{"closed": http.StatusServiceUnavailable, "local": http.StatusTooManyRequests} {
		t.Run(degraded, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t)
			weir := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
				out.Header().Set("Weir-Degraded", degraded)
				out.Header().Set("Retry-After", "1")
				out.WriteHeader(http.StatusForbidden)
			}))
			t.Cleanup(weir.Close)
			w.weir = weir.Listener.Addr().String()
			startNginx(t, w, nginxServers(t, w))
			a := get(t, clientFrom(t, "127.0.0.2"), "http://"+w.proxy+"/")
			g.Expect(a.status).To(Equal(want))
			g.Expect(a.header.Get("Retry-After")).To(Equal("1"))
		})
	}
}

// The documented behavior of the proxies while Weir is unreachable.
func TestProxiesWithoutWeir(t *testing.T) {
	w := newWorld(t)
	w.weir = testenv.FreeAddr(t)
	client := clientFrom(t, "127.0.0.2")
	status := func() int {
		a := get(t, client, "http://"+w.proxy+"/")
		return a.status
	}
	t.Run("nginx", func(t *testing.T) {
		startNginx(t, w, nginxServers(t, w))
		NewWithT(t).Expect(status()).To(Equal(http.StatusInternalServerError))
	})
	t.Run("nginx that allows", func(t *testing.T) {
		text, err := os.ReadFile(root + "/docs/integrations/nginx.md")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		page := strings.Join(strings.Fields(string(text)), " ")
		const errors, location = "error_page 500 502 504 = @weir_away;", "location @weir_away { internal; return 204; }"
		NewWithT(t).Expect(page).To(And(ContainSubstring("`"+errors+"`"), ContainSubstring("`"+location+"`")))
		startNginx(t, w, strings.Replace(nginxServers(t, w), "location = /_weir {", location+"\n    location = /_weir {\n        "+errors, 1))
		NewWithT(t).Expect(status()).To(Equal(http.StatusOK))
	})
	t.Run("Caddy", func(t *testing.T) {
		startCaddy(t, w)
		NewWithT(t).Expect(status()).To(Equal(http.StatusBadGateway))
	})
}

func TestCaddy(t *testing.T) {
	w := newWorld(t)
	startCaddy(t, w)
	limited(t, w)
	a := get(t, clientFrom(t, "127.0.0.2"), "http://"+w.proxy+"/")
	g := NewWithT(t)
	g.Expect(a.header.Get("Content-Type")).To(Equal("application/problem+json"))
	g.Expect(a.body).To(ContainSubstring(`"reason":"LimitExceeded"`))

	// Caddy forwards the headers of nginx, which differ here.
	a = get(t, clientFrom(t, "127.0.0.5"), "http://"+w.proxy+"/", "X-Original-URI", "/else", "X-Original-Method", "PUT")
	g.Expect(a.status).To(Equal(http.StatusBadRequest))
	g.Expect(a.body).To(ContainSubstring(`"field":"X-Forwarded-Method"`))
}

// The documented way to ignore the headers of nginx.
func TestCaddyThatRemovesHeaders(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	config := w.block(t, "caddy.md", "caddyfile", "shop.example {", "http://"+w.proxy+" {",
		"	forward_auth", "	route {\n	request_header -X-Original-*\n	forward_auth", "	reverse_proxy", "	}\n	reverse_proxy")
	startCaddyWith(t, w, config)
	a := get(t, clientFrom(t, "127.0.0.6"), "http://"+w.proxy+"/", "X-Original-URI", "/else", "X-Original-Method", "PUT")
	g.Expect(a.status).To(Equal(http.StatusOK), a.body)
}
