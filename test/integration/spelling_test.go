// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// spelled are the policies of the resources.
const spelled = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: login, namespace: spelled}
spec:
  matches: [{hosts: [bank.example], methods: [POST], paths: [/login]}]
  limits: [{name: daily, algorithm: FixedWindow, threshold: 1000000, window: 24h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: search, namespace: spelled}
spec:
  matches: [{hosts: [bank.example], methods: [GET], paths: [/search]}]
  limits: [{name: daily, algorithm: FixedWindow, threshold: 1000000, window: 24h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: account, namespace: spelled}
spec:
  matches: [{hosts: [bank.example], methods: [GET], paths: [/account]}]
  key: [{type: Header, header: {name: X-Api-Key}}]
  limits: [{name: daily, algorithm: FixedWindow, threshold: 1000000, window: 24h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: profile, namespace: spelled}
spec:
  matches: [{hosts: [bank.example], methods: [GET], paths: [/profile]}]
  key: [{type: QueryParameter, queryParameter: {name: account}}]
  limits: [{name: daily, algorithm: FixedWindow, threshold: 1000000, window: 24h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: plus, namespace: spelled}
spec:
  matches: [{hosts: [bank.example], methods: [GET], paths: [/plus]}]
  key: [{type: QueryParameter, queryParameter: {name: account}}]
  limits: [{name: daily, algorithm: FixedWindow, threshold: 1000000, window: 24h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: session, namespace: spelled}
spec:
  matches: [{hosts: [bank.example], methods: [GET], paths: [/session]}]
  key: [{type: Cookie, cookie: {name: account}}]
  limits: [{name: daily, algorithm: FixedWindow, threshold: 1000000, window: 24h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tier, namespace: spelled}
spec:
  matches: [{hosts: [bank.example], methods: [GET], paths: [/tier], queryParameters: [{name: tier, value: free}]}]
  limits: [{name: daily, algorithm: FixedWindow, threshold: 1000000, window: 24h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: level, namespace: spelled}
spec:
  matches: [{hosts: [bank.example], methods: [GET], paths: [/level], headers: [{name: X-Level, value: free}]}]
  limits: [{name: daily, algorithm: FixedWindow, threshold: 1000000, window: 24h}]
`

// counted returns the units that Weir has counted for a resource.
func (w *world) counted(t *testing.T, of resource) int64 {
	t.Helper()
	body := fmt.Sprintf(`{"policies":["spelled%s"],"attributes":{"path":"/?account=%s","headers":{"x-api-key":"alice","cookie":"account=alice"}},"peek":true}`,
		of.path, url.QueryEscape(of.account))
	return w.peek(t, body).Used
}

// gateway is a proxy in front of the upstream, with the documented settings or with the proxy's
// defaults in place of the settings that reject spellings.
type gateway struct {
	name string
	// start returns the address for HTTP/2, which may be another one.
	start func(t *testing.T, w *world, defaults bool) (http2 string)
}

var spellingGateways = []gateway{{"Envoy", startSpellingEnvoy}, {"nginx", startSpellingNginx}, {"Caddy", startSpellingCaddy}}

// without removes texts. Each must occur.
func without(t *testing.T, config string, texts ...string) string {
	t.Helper()
	for _, text := range texts {
		config = replace(t, config, text, "")
	}
	return config
}

func startSpellingEnvoy(t *testing.T, w *world, defaults bool) string {
	t.Helper()
	const address = "          use_remote_address: true\n"
	// Else Envoy keeps a connection for a second after an error.
	config := w.printed(t, blocks(t, "envoy.md")[0], address, address+"          delayed_close_timeout: 0.01s\n")
	if defaults {
		config = without(t, config, "          normalize_path: true\n", "          merge_slashes: true\n",
			"          path_with_escaped_slashes_action: REJECT_REQUEST\n",
			"          common_http_protocol_options: {headers_with_underscores_action: REJECT_REQUEST}\n",
			"              encode_raw_headers: true\n",
			"            request_headers_to_remove: [x-forwarded-host, x-http-method-override, x-original-url]\n",
			"              - match: {safe_regex: {regex: \".*(;|%25|%00).*\"}}\n                direct_response: {status: 400}\n")
	}
	startEnvoy(t, w, config)
	return w.proxy
}

func startSpellingNginx(t *testing.T, w *world, defaults bool) string {
	t.Helper()
	http2, listen := testenv.FreeAddr(t), "listen "+w.proxy+";"
	config := replace(t, nginxServers(t, w), "&policy=shop/burst", "", listen, listen+"\n    listen "+http2+" http2;")
	if defaults {
		config = without(t, config, `    if ($request_uri ~* "^[^?]*(;|\\\\|%00|%25|%2f|%5c)") { return 400; }`+"\n",
			"        proxy_set_header X-Forwarded-Host       $host;\n", "        proxy_set_header X-Original-URL         \"\";\n",
			"        proxy_set_header X-HTTP-Method-Override \"\";\n")
	}
	startNginx(t, w, config)
	return http2
}

func startSpellingCaddy(t *testing.T, w *world, defaults bool) string {
	t.Helper()
	_, port, err := net.SplitHostPort(w.proxy)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	config := w.block(t, "caddy.md", "caddyfile", "?policy=shop/burst", "?", "shop.example {", "http://bank.example:"+port+" {\n\tbind 127.0.0.1")
	if defaults {
		config = without(t, config, "\t@ambiguous vars_regexp {http.request.orig_uri} `(?i)^[^?]*(;|\\\\|%00|%25|%2f|%5c)`\n",
			"\trespond @ambiguous 400\n", "\trequest_header -X-HTTP-Method-Override\n")
	}
	startCaddyWith(t, w, "{\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n"+config)
	return w.proxy
}

// treatedAs reports how many requests the reader takes for the resource.
func treatedAs(of resource, read func(*request) resource, received []request) (n int) {
	for i := range received {
		found := read(&received[i])
		if of.account == "" {
			found.account = ""
		}
		if found == of {
			n++
		}
	}
	return n
}

// escapes sends the spellings through the gateway. It returns an example for each reader that took a
// request for the resource which was not counted as it.
func (gw *gateway) escapes(t *testing.T, all []spelling, defaults bool) map[string]string {
	t.Helper()
	w, u := newWorld(t, spelled), startUpstream(t)
	w.upstream = u.address
	http2 := gw.start(t, w, defaults)
	escaped, before := map[string]string{}, map[string]int{}
	passed, treated, counted := 0, 0, 0
	for i := range all {
		s, address := &all[i], w.proxy
		if s.fields != nil {
			address = http2
		}
		s.send(t, address)
		received, now := u.take(), int(w.counted(t, s.of))
		spent := now - before[s.of.path]
		before[s.of.path] = now
		passed, counted = passed+len(received), counted+spent
		for j, r := range slices.Concat(readers, valueReaders) {
			n := treatedAs(s.of, r.read, received)
			if _, found := escaped[r.name]; n > spent && !found {
				escaped[r.name] = s.example()
			}
			if j == 0 {
				treated += n
			}
		}
	}
	t.Logf("%s, defaults %v: of %d spellings %d reached the upstream, %d as the resource; %d were counted", gw.name, defaults, len(all), passed, treated, counted)
	g := NewWithT(t)
	g.Expect(passed).To(BeNumerically(">", len(all)/4), "most were rejected")
	g.Expect(treated).To(BeNumerically(">", 50), "few were the resource")
	return escaped
}

// documentedEscapes returns the table of docs/security.md: the gateways of each reader, as printed and
// with defaults.
func documentedEscapes(t *testing.T) map[string][2]string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/security.md")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(text), "\n## Spellings\n")
	g.Expect(found).To(BeTrue())
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][2]string{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 7 {
			rows[strings.TrimSpace(cells[1])] = [2]string{strings.TrimSpace(cells[3]), strings.TrimSpace(cells[4])}
		}
	}
	delete(rows, "servers that interpret")
	delete(rows, "---")
	g.Expect(rows).NotTo(BeEmpty())
	return rows
}

// What a server takes for the limited resource was counted as it, with the exceptions in
// docs/security.md.
func TestSpellings(t *testing.T) {
	all := slices.Concat(targetSpellings(), requestSpellings(), pseudoSpellings(), valueSpellings())
	NewWithT(t).Expect(len(all)).To(BeNumerically(">", 300))
	found := map[string][2]string{}
	for _, gw := range spellingGateways {
		for i, defaults := range []bool{false, true} {
			for name, example := range gw.escapes(t, all, defaults) {
				t.Logf("%s, defaults %v: %s: %s", gw.name, defaults, name, example)
				row := found[name]
				row[i] = strings.TrimPrefix(row[i]+", "+gw.name, ", ")
				found[name] = row
			}
		}
	}
	NewWithT(t).Expect(found).To(Equal(documentedEscapes(t)))
}
