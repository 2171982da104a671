// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/testenv"
	"github.com/weir-dev/weir/internal/testenv/testpolicy"
)

// degradedCheck sends a check and returns the status and the header Weir-Degraded.
func (p *weirProcess) degradedCheck(policy, key string) (status int, degraded string) {
	body := fmt.Sprintf(`{"policies":["shop/%s"],"key":%q}`, policy, key)
	response, err := http.Post("http://"+p.http+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode, response.Header.Get("Weir-Degraded")
}

// admits returns how many checks of the key pass before the first denial, at most 100.
func (p *weirProcess) admits(policy, key string) (n int) {
	for range 100 {
		if status, _ := p.degradedCheck(policy, key); status != http.StatusOK {
			break
		}
		n++
	}
	return n
}

// Two processes without Redis admit half of the quota each; with Redis they share it again.
func TestStandaloneLimitsLocallyWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	redis := testenv.StartRedis(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(`apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: p, namespace: shop}
spec:
  failureMode: Local
  limits:
  - {name: hourly, algorithm: SlidingLog, threshold: 10, window: 1h}
`), 0o600)).To(Succeed())
	args := []string{"--policies", dir, "--redis-url", redis.URL, "--replicas", "2", "--store-timeout", "200ms"}
	first, second := startStandalone(t, args...), startStandalone(t, args...)
	g.Expect(first.admits("p", "alice")).To(Equal(10))

	redis.Stop()
	status, degraded := second.degradedCheck("p", "alice")
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(degraded).To(Equal("local"))
	g.Expect(second.admits("p", "alice")).To(Equal(4))
	g.Expect(first.admits("p", "alice")).To(BeZero(), "it remembers the denial of Redis")
	g.Expect(first.admits("p", "bob")).To(Equal(5))
	status, degraded = first.degradedCheck("p", "bob")
	g.Expect(status).To(Equal(http.StatusTooManyRequests))
	g.Expect(degraded).To(Equal("local"))

	redis.Start()
	g.Eventually(func() string { _, degraded := second.degradedCheck("p", "carol"); return degraded }, "5s").Should(BeEmpty())
}

// Processes that only decide learn from their heartbeats how many they are, and keep the number
// while Redis is away.
func TestManagerLimitsLocallyWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.manager("--decisions=false")
	c.create(testpolicy.Make("shop/p").Limit("hourly", v1alpha1.AlgorithmFixedWindow, 10, "1h").
		FailureMode(v1alpha1.FailureModeLocal).Obj())
	replicas := []*weirProcess{c.manager("--controllers=false", "--replica", "a"), c.manager("--controllers=false", "--replica", "b")}
	for _, p := range replicas {
		g.Eventually(p.enforces("p"), "20s").Should(Equal(int64(10)))
		g.Eventually(func() string { return p.get("/v1/policies") }, "10s").
			Should(And(ContainSubstring(`"name":"a"`), ContainSubstring(`"name":"b"`)))
	}
	c.redis.Stop()
	for _, p := range replicas {
		g.Expect(p.admits("p", "alice")).To(Equal(5))
	}
}

// get returns the body of a response.
func (p *weirProcess) get(path string) string {
	response, err := http.Get("http://" + p.http + path)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	var body strings.Builder
	_ = response.Write(&body)
	return body.String()
}

func TestStandaloneRejectsInvalidLocalFlags(t *testing.T) {
	for _, tc := range []struct{ flag, want string }{
		{"--local-keys=0", "--local-keys 0: must be at least 1"},
		{"--slices=-1", "--slices -1: must not be negative"},
		{"--replicas=0", "--replicas 0: must be 1..1000"},
		{"--replicas=1001", "--replicas 1001: must be 1..1000"},
	} {
		cmd := newStandaloneCommand()
		cmd.SetArgs([]string{"--policies", t.TempDir(), tc.flag})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		NewWithT(t).Expect(cmd.ExecuteContext(t.Context())).To(MatchError(ContainSubstring(tc.want)))
	}
}
