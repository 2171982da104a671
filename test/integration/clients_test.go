// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// For proxies that cannot run here, a client sends the requests they document.
func TestProxiesByTheirDocumentation(t *testing.T) {
	for name, tc := range map[string]struct {
		page    string
		address string // the URL of the frontend on the page
		headers []string
		denied  int
	}{
		"Traefik": {
			"traefik.md", `address: (\S+)`,
			[]string{
				"X-Forwarded-Method", "GET", "X-Forwarded-Proto", "http", "X-Forwarded-Host", "shop.example",
				"X-Forwarded-Uri", "/cart?page=2", "X-Forwarded-For", "192.0.2.1", "Accept-Encoding", "gzip",
			},
			http.StatusTooManyRequests,
		},
		"ingress-nginx": {
			"ingress-nginx.md", `auth-url: (\S+)`,
			[]string{
				"X-Request-ID", "1", "X-Original-URL", "http://shop.example/cart?page=2", "X-Original-Method", "GET",
				"X-Sent-From", "nginx-ingress-controller", "X-Real-IP", "192.0.2.1", "X-Forwarded-For", "192.0.2.1",
				"X-Auth-Request-Redirect", "/cart?page=2",
			},
			http.StatusForbidden,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t)
			url := regexp.MustCompile(tc.address).FindStringSubmatch(w.block(t, tc.page, "yaml"))
			g.Expect(url).NotTo(BeNil())
			proxy := clientFrom(t, "127.0.0.1")
			for range 3 {
				a := get(t, proxy, url[1], tc.headers...)
				g.Expect(a.status).To(Equal(http.StatusOK), a.body)
				g.Expect(a.body).To(BeEmpty())
			}
			a := get(t, proxy, url[1], tc.headers...)
			g.Expect(a.status).To(Equal(tc.denied), a.body)
			g.Expect(a.header.Get("Retry-After")).NotTo(BeEmpty())

			a = get(t, proxy, url[1], append(tc.headers, "X-Forwarded-Uri", "/a", "X-Original-URI", "/b")...)
			g.Expect(a.status).To(Equal(http.StatusBadRequest), a.body)
		})
	}
}

// The programs of docs/integrations/http-clients.md print the documented output.
func TestPrograms(t *testing.T) {
	w := newWorld(t)
	for language, tc := range map[string]struct {
		command []string
		file    string
		want    string // three allowed requests, one denied
	}{
		"go":     {[]string{"go", "run"}, "main.go", `^(true  <nil>\n){3}false (\d|10) <nil>\n$`},
		"python": {[]string{"python3"}, "client.py", `^(True None\n){3}False (\d|10)\n$`},
		"js":     {[]string{"node"}, "client.js", `^(true null\n){3}false (\d|10)\n$`},
	} {
		t.Run(language, func(t *testing.T) {
			g := NewWithT(t)
			_, err := exec.LookPath(tc.command[0])
			g.Expect(err).NotTo(HaveOccurred(), hint)
			dir := t.TempDir()
			path := filepath.Join(dir, tc.file)
			g.Expect(os.WriteFile(path, []byte(w.block(t, "http-clients.md", language)), 0o600)).To(Succeed())
			cmd := testenv.CommandContext(t.Context(), tc.command[0], append(tc.command[1:], path)...)
			cmd.Dir = dir
			output, err := cmd.CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), string(output))
			g.Expect(string(output)).To(MatchRegexp(tc.want))
		})
	}
}
