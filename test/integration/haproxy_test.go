// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/proxy"
)

// startHAProxy runs the configuration and the Lua file of the page, with replacements in the Lua file in pairs.
func startHAProxy(t *testing.T, w *world, pairs ...string) {
	t.Helper()
	g := NewWithT(t)
	haproxy := proxy.Installed(t, "haproxy")
	dir := t.TempDir()
	_, port, err := net.SplitHostPort(w.proxy)
	g.Expect(err).NotTo(HaveOccurred())
	pairs = append(pairs, "abns@weir", "abns@weir-"+port) // other tests use the same name
	script, config := filepath.Join(dir, "weir.lua"), filepath.Join(dir, "haproxy.cfg")
	g.Expect(os.WriteFile(script, []byte(w.block(t, "haproxy.md", "lua", pairs...)), 0o600)).To(Succeed())
	text := w.block(t, "haproxy.md", "haproxy", "/etc/haproxy/weir.lua", script, "bind :80", "bind "+w.proxy, "abns@weir", "abns@weir-"+port)
	g.Expect(os.WriteFile(config, []byte(text), 0o600)).To(Succeed())
	run(t, w.proxy, testenv.Command(haproxy, "-db", "-f", config))
}

func TestHAProxy(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	startHAProxy(t, w)
	limited(t, w)
	client, url := clientFrom(t, "127.0.0.4"), "http://"+w.proxy+"/"
	a := get(t, client, url)
	g.Expect(a.header.Get("RateLimit")).To(MatchRegexp(`^"shop/burst-short";r=2;t=10$`), "allowed requests have the header too")
	a = get(t, clientFrom(t, "127.0.0.2"), url)
	g.Expect(a.header.Get("Content-Type")).To(Equal("application/problem+json"))
	g.Expect(a.body).To(ContainSubstring(`"reason":"LimitExceeded"`))
	for _, path := range []string{"%2flogin", "a;b", "x%5cy?q=1"} {
		g.Expect(get(t, client, url+path).status).To(Equal(http.StatusBadRequest), path)
	}
	g.Expect(get(t, client, url+"search?q=a;b").status).To(Equal(http.StatusOK), "the query may have any character")
}

// A denial without a retry time is a 403, and every header of the client is an attribute.
func TestHAProxyForwardsDenials(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	startHAProxy(t, w, `"http-req" }, check, 1)`, `"http-req" }, function(txn) check(txn, "policy=shop/no-nameless") end, 1)`)
	client, url := clientFrom(t, "127.0.0.2"), "http://"+w.proxy+"/"
	a := get(t, client, url)
	g.Expect(a.status).To(Equal(http.StatusForbidden))
	g.Expect(a.header).NotTo(HaveKey("Retry-After"))
	g.Expect(get(t, client, url, "X-Account", "dave").status).To(Equal(http.StatusOK))

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("body"))
	g.Expect(err).NotTo(HaveOccurred())
	r.Header["X-Account"] = []string{"dave", "eve"}
	g.Expect(send(t, client, r).status).To(Equal(http.StatusForbidden), "a repeated header stays repeated")
}

func TestHAProxyMatches(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, `{apiVersion: ratelimit.weir.dev/v1alpha1, kind: RateLimitPolicy, metadata: {name: put, namespace: shop},
		spec: {matches: [{methods: [PUT], hosts: [put.example], paths: [/put/*], queryParameters: [{name: a, value: b}]}], limits: [{name: one, algorithm: FixedWindow, threshold: 1, window: 1h}]}}`)
	startHAProxy(t, w, `core.register_action("weir", { "http-req" }, check, 1)`, `core.register_action("weir", { "http-req" }, function(txn) check(txn, "") end, 1)`)
	status := func(method, host, path string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.proxy+path, strings.NewReader("body"))
		g.Expect(err).NotTo(HaveOccurred())
		r.Host = host
		return send(t, clientFrom(t, "127.0.0.2"), r).status
	}
	g.Expect(status(http.MethodPut, "put.example", "/put/1?a=b")).To(Equal(http.StatusOK))
	for range 2 {
		g.Expect(status(http.MethodPut, "put.example", "/put/1?a=b")).To(Equal(http.StatusTooManyRequests))
		g.Expect(status(http.MethodPost, "put.example", "/put/1?a=b")).To(Equal(http.StatusOK))
		g.Expect(status(http.MethodPut, "other.example", "/put/1?a=b")).To(Equal(http.StatusOK))
		g.Expect(status(http.MethodPut, "put.example", "/put/1?a=c")).To(Equal(http.StatusOK))
	}
}

// No number and no size of headers lets a request pass without a check, or ends HAProxy.
func TestHAProxyWithLargeHeaders(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	startHAProxy(t, w)
	client, url := clientFrom(t, "127.0.0.2"), "http://"+w.proxy+"/"
	for range 3 {
		g.Expect(get(t, client, url).status).To(Equal(http.StatusOK))
	}
	denied := Or(Equal(http.StatusTooManyRequests), Equal(http.StatusRequestHeaderFieldsTooLarge), Equal(http.StatusBadRequest))
	for _, size := range []int{1000, 8000, 8200, 12_000, 15_000, 15_050, 15_100, 15_150, 16_000} {
		g.Expect(get(t, client, url, "X-Large", strings.Repeat("x", size)).status).To(denied, "a header of %d bytes", size)
		g.Expect(get(t, client, url+strings.Repeat("x", size)).status).To(denied, "a path of %d bytes", size)
	}
	for _, lines := range []int{50, 64, 65, 80, 90, 95, 100, 200} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		g.Expect(err).NotTo(HaveOccurred())
		for i := range lines {
			r.Header.Set(fmt.Sprintf("X-Header-%d", i), "x")
			r.Header.Add("X-Same", "x")
		}
		g.Expect(send(t, client, r).status).To(denied, "%d headers of different names, and of one name", lines)
	}
	g.Expect(get(t, clientFrom(t, "127.0.0.3"), url).status).To(Equal(http.StatusOK))
}

// The documented behavior while Redis or Weir does not answer.
func TestHAProxyInOutages(t *testing.T) {
	closed := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		out.Header().Set("Weir-Degraded", "closed")
		out.Header().Set("Retry-After", "1")
		out.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(closed.Close)
	stuck, hung := make(chan struct{}), atomic.Int64{}
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		hung.Add(1)
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(stuck) })
	upstream := newUpstream(t)
	t.Cleanup(func() { NewWithT(t).Expect(hung.Load()).To(BeEquivalentTo(2), "no check is repeated") })
	denies := []string{"admits_without_weir = true", "admits_without_weir = false"}
	for name, tc := range map[string]struct {
		weir   string
		pairs  []string
		status int
	}{
		"failureMode Closed":         {closed.Listener.Addr().String(), nil, http.StatusServiceUnavailable},
		"no Weir":                    {testenv.FreeAddr(t), nil, http.StatusOK},
		"no Weir and denied":         {testenv.FreeAddr(t), denies, http.StatusServiceUnavailable},
		"Weir that hangs":            {hanging.Listener.Addr().String(), nil, http.StatusOK},
		"Weir that hangs and denied": {hanging.Listener.Addr().String(), denies, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := &world{weir: tc.weir, upstream: upstream, proxy: testenv.FreeAddr(t)}
			startHAProxy(t, w, tc.pairs...)
			a := get(t, clientFrom(t, "127.0.0.2"), "http://"+w.proxy+"/")
			g.Expect(a.status).To(Equal(tc.status))
			if tc.status != http.StatusOK {
				g.Expect(a.header.Get("Retry-After")).To(Equal("1"))
			}
		})
	}
}
