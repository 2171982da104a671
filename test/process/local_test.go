// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

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
	args := []string{"--policies", dir, "--redis-url", redis.URL, "--replicas", "2", "--store-timeout", "30s"}
	first, second := startStandalone(t, args...), startStandalone(t, args...)
	g.Expect(first.Admits("p", "alice")).To(Equal(10))

	redis.Stop()
	status, degraded := second.DegradedCheck("p", "alice")
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(degraded).To(Equal("local"))
	g.Expect(second.Admits("p", "alice")).To(Equal(4))
	g.Expect(first.Admits("p", "alice")).To(BeZero(), "it remembers the denial of Redis")
	g.Expect(first.Admits("p", "bob")).To(Equal(5))
	status, degraded = first.DegradedCheck("p", "bob")
	g.Expect(status).To(Equal(http.StatusTooManyRequests))
	g.Expect(degraded).To(Equal("local"))

	redis.Start()
	g.Eventually(func() string { _, degraded := second.DegradedCheck("p", "carol"); return degraded }).Should(BeEmpty())
}
