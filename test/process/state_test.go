// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

func TestAdminTokenFile(t *testing.T) {
	g := NewWithT(t)
	token := filepath.Join(t.TempDir(), "token")
	write := func(text string) { g.Expect(os.WriteFile(token, []byte(text), 0o600)).To(Succeed()) }
	write("first-token\n")
	p := startStandalone(t, "--policies", "../../config/samples", "--admin-token-file", token)
	expect := func(token, method, target, body string, wantStatus int, want string) {
		t.Helper()
		status, text := p.Operator(token, method, target, body)
		g.Expect(status).To(Equal(wantStatus), text)
		g.Expect(text).To(ContainSubstring(want))
	}
	check := func() int {
		status, _, err := p.Check(`{"policies":["shop/burst"],"key":"mallory-key"}`)
		g.Expect(err).NotTo(HaveOccurred())
		return status
	}
	// The policy's key has another form; a caller may give its checks this one.
	const inspect = "/v1/state?policy=shop/burst&key=mallory-key&asGiven=true"
	const target = `{"policy":"shop/burst","key":"mallory-key","asGiven":true}`
	expect("wrong", "GET", inspect, "", 401, "Unauthenticated")
	expect("first-token", "GET", inspect, "", 200, `"blocked":false`)
	expect("first-token", "POST", "/v1/block", `{"policy":"shop/burst","key":"mallory-key","asGiven":true,"duration":"10m"}`, 200, `{"found":true}`)
	g.Expect(check()).To(Equal(http.StatusTooManyRequests))
	expect("first-token", "GET", inspect, "", 200, `"blocked":true`)
	write("second-token")
	expect("first-token", "POST", "/v1/unblock", target, 401, "Unauthenticated")
	expect("second-token", "POST", "/v1/unblock", target, 200, `{"found":true}`)
	g.Expect(check()).To(Equal(http.StatusOK))
	expect("second-token", "POST", "/v1/reset", target, 200, `{"found":true}`)
	g.Expect(os.Remove(token)).To(Succeed())
	expect("second-token", "GET", inspect, "", 503, "Unavailable")
	g.Expect(check()).To(Equal(http.StatusOK))

	log := p.Log.String()
	g.Expect(log).To(ContainSubstring(`"msg":"Unblocked a key"`))
	g.Expect(log).NotTo(Or(ContainSubstring("mallory-key"), ContainSubstring("first-token"),
		ContainSubstring("second-token")))
}

// The operator port serves the state calls, in plain text and without a client certificate although the
// HTTP port has TLS, and no checks.
func TestOperatorAddress(t *testing.T) {
	g := NewWithT(t)
	authority, dir := testenv.NewAuthority(t), t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		return path
	}
	cert, key := authority.Issue(t, "weir", "127.0.0.1")
	port := &process.Running{HTTP: testenv.FreeAddr(t)}
	startStandalone(t, "--policies", "../../config/samples", "--admin-token-file", file("token", "secret"),
		"--tls-cert-file", file("tls.crt", string(cert)), "--tls-key-file", file("tls.key", string(key)),
		"--client-ca-file", file("ca.crt", string(authority.PEM)), "--operator-address", port.HTTP)
	var status int
	var text string
	g.Eventually(func() int {
		status, text = port.Operator("secret", "GET", "/v1/state?policy=shop/burst&key=192.0.2.1", "")
		return status
	}).Should(Equal(http.StatusOK), text)
	status, text = port.Operator("secret", "POST", "/v1/block", `{"policy":"shop/burst","key":"192.0.2.1","duration":"10m"}`)
	g.Expect(status).To(Equal(http.StatusOK), text)
	status, text = port.Operator("secret", "GET", "/v1/policies", "")
	g.Expect(status).To(Equal(http.StatusOK), text)
	status, text = port.Operator("secret", "POST", "/v1/check", `{"policies":["shop/burst"],"key":"k"}`)
	g.Expect(status).To(Equal(http.StatusNotFound), text)
}

// The example of docs/http.md, for the bearer of the admin token.
func TestExplainWithAdminTokenFile(t *testing.T) {
	g := NewWithT(t)
	token := filepath.Join(t.TempDir(), "token")
	g.Expect(os.WriteFile(token, []byte("admin-token"), 0o600)).To(Succeed())
	p := startStandalone(t, "--policies", "../../config/samples", "--admin-token-file", token)
	explain := func(path string) string {
		t.Helper()
		status, text := p.Operator("admin-token", "POST", "/v1/explain", `{"attributes": {"method": "POST", "host": "shop.example",
			"path": "`+path+`", "headers": {"x-account": "dave"}, "remoteAddress": "192.0.2.1"}}`)
		g.Expect(status).To(Equal(http.StatusOK), text)
		return text
	}
	g.Expect(explain("/signin")).To(MatchJSON(`{"decision": {"allowed": true, "reason": "NoPolicy", "policy": "", "limit": ""},
		"policies": [], "hiddenPolicies": 0,
		"nearMisses": [
			{"policy": "shop/login", "reason": "Mismatch", "match": 0, "field": "paths", "wants": ["/login"], "got": ["/signin"]},
			{"policy": "shop/backend-capacity", "reason": "ByNameOnly"},
			{"policy": "shop/burst", "reason": "ByNameOnly"},
			{"policy": "shop/llm-calls", "reason": "ByNameOnly"},
			{"policy": "shop/llm-tokens", "reason": "ByNameOnly"},
			{"policy": "shop/password-reset", "reason": "ByNameOnly"},
			{"policy": "shop/team-calls", "reason": "ByNameOnly"}],
		"hiddenNearMisses": 0, "moreNearMisses": 0, "revision": 1}`))
	g.Expect(explain("/login")).To(And(ContainSubstring(`"keyHash":"922c4508b0b19a53"`), ContainSubstring(`"window":"24h"`),
		ContainSubstring(`{"type":"Header","name":"x-account","value":"dave"}`)))
}

// Without the flag the paths do not exist.
func TestNoAdminTokenFile(t *testing.T) {
	g := NewWithT(t)
	p := startStandalone(t, "--policies", "../../config/samples")
	status, text := p.Operator("any", "GET", "/v1/state?policy=shop/burst&key=k", "")
	g.Expect(status).To(Equal(http.StatusNotFound), text)
}

// A process that drains hands its figures to the next one.
func TestARestartKeepsDecisionsAndDeniedKeys(t *testing.T) {
	g, redis, dir := NewWithT(t), testenv.StartRedis(t), t.TempDir()
	token := filepath.Join(t.TempDir(), "token")
	g.Expect(os.WriteFile(token, []byte("secret"), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(`apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: clients, namespace: shop}
spec:
  key: [{type: RemoteAddress, remoteAddress: {}}]
  limits: [{name: hourly, algorithm: SlidingLog, threshold: 3, window: 1h}]
`), 0o600)).To(Succeed())
	begin := func() *process.Running {
		return startStandalone(t, "--policies", dir, "--redis-url", redis.URL, "--store-timeout", "60s", "--admin-token-file", token)
	}
	first := begin()
	for range 4 { // three are admitted
		_, _, err := first.Check(`{"policies":["shop/clients"],"attributes":{"remoteAddress":"192.0.2.1"}}`)
		g.Expect(err).NotTo(HaveOccurred())
	}
	first.Signal(t, syscall.SIGTERM)
	g.Expect(first.Cmd.Wait()).To(Succeed())
	status, text := begin().Operator("secret", "GET", "/v1/top?namespace=shop", "")
	g.Expect(status).To(Equal(http.StatusOK), text)
	g.Expect(text).To(And(ContainSubstring(`"lastHour":{"allowed":3,"denied":1,`), ContainSubstring(`"key":["192.0.2.1"]`), ContainSubstring(`"since":"`)))
}
