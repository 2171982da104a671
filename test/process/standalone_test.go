// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(process.Timeout)
	os.Exit(m.Run())
}

func startStandalone(t *testing.T, args ...string) *process.Running {
	t.Helper()
	return process.Start(t, append([]string{"standalone"}, args...)...)
}

// Four processes share one Redis: of 400 concurrent checks of one key exactly the
// threshold of 100 are allowed, with each algorithm.
func TestFourProcessesShareOneLimit(t *testing.T) {
	server := testenv.StartRedis(t)
	dir := t.TempDir()
	policy := `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: %s, namespace: shop}
spec:
  failureMode: Closed
  limits:
  - {name: l, algorithm: %s, threshold: 100, window: 1h}
---`
	text := fmt.Sprintf(policy, "fixed", "FixedWindow") + fmt.Sprintf(policy, "log", "SlidingLog")
	NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(text), 0o600)).To(Succeed())
	var processes []*process.Running
	for range 4 {
		processes = append(processes, startStandalone(t, "--policies", dir, "--redis-url", server.URL, "--store-timeout", "60s"))
	}
	for _, name := range []string{"fixed", "log"} {
		for round := range 3 {
			t.Run(fmt.Sprintf("%s/%d", name, round), func(t *testing.T) {
				g := NewWithT(t)
				var allowed, denied atomic.Int64
				var wg sync.WaitGroup
				for i := range 400 {
					wg.Go(func() {
						status, _, err := processes[i%4].Check(fmt.Sprintf(`{"policies":["shop/%s"],"key":"round-%d"}`, name, round))
						switch {
						case err == nil && status == http.StatusOK:
							allowed.Add(1)
						case err == nil && status == http.StatusTooManyRequests:
							denied.Add(1)
						}
					})
				}
				wg.Wait()
				g.Expect(allowed.Load()).To(Equal(int64(100)))
				g.Expect(denied.Load()).To(Equal(int64(300)))
			})
		}
	}
}

// With the wall clock of a real Redis: a blocked caller stays blocked although its
// window has slid, and is allowed again after retryAfter.
func TestBlockEndsAfterRetryAfter(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(`
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: block, namespace: shop}
spec:
  limits:
  - {name: l, algorithm: SlidingLog, threshold: 1, window: 100ms, blockDuration: 700ms}
`), 0o600)).To(Succeed())
	p := startStandalone(t, "--policies", dir, "--redis-url", server.URL, "--store-timeout", "60s")
	check := func() (int, time.Duration) {
		status, retryAfter, err := p.Check(`{"policies":["shop/block"],"key":"alice"}`)
		g.Expect(err).NotTo(HaveOccurred())
		return status, retryAfter
	}
	var wait time.Duration
	var denied time.Time
	deny := func() {
		t.Helper()
		g.Eventually(func() (status int) { // two checks within a window, even if the machine is busy
			denied = time.Now()
			status, wait = check()
			return status
		}, process.Timeout, "1ms").Should(Equal(http.StatusTooManyRequests))
	}
	status, _ := check()
	g.Expect(status).To(Equal(http.StatusOK))
	deny()
	g.Expect(wait).To(Equal(700 * time.Millisecond))
	g.Eventually(func() int { status, _ := check(); return status }, process.Timeout, "1ms").Should(Equal(http.StatusOK))
	// Redis ends a key by its wall clock, in whole milliseconds; the time here is of another clock.
	g.Expect(time.Since(denied)).To(BeNumerically(">=", 690*time.Millisecond))

	deny()
	if status, left := check(); status == http.StatusTooManyRequests { // else the machine is so busy that the block has ended
		wait = left
	}
	<-time.After(wait)
	status, _ = check()
	g.Expect(status).To(Equal(http.StatusOK), "allowed after retryAfter")
}

// The commands of the README have the results that it documents.
func TestReadmeCurls(t *testing.T) {
	g := NewWithT(t)
	readme, err := os.ReadFile("../../README.md")
	g.Expect(err).NotTo(HaveOccurred())
	p := startStandalone(t, "--policies", "../../config/samples")
	lines := regexp.MustCompile(`(?m)^curl .* -d '([^']+)' localhost:8080/v1/check\s+# (\d+)((?:, then \d+)*)`).FindAllStringSubmatch(string(readme), -1)
	g.Expect(len(lines)).To(BeNumerically(">=", 2))
	turned := false
	for _, line := range lines {
		statuses := regexp.MustCompile(`\d+`).FindAllString(line[2]+line[3], -1)
		seen := []string{}
		for start := time.Now(); time.Since(start) < process.Timeout; {
			status, _, err := p.Check(line[1])
			g.Expect(err).NotTo(HaveOccurred())
			if s := strconv.Itoa(status); len(seen) == 0 || seen[len(seen)-1] != s {
				seen = append(seen, s)
			}
			if len(seen) == len(statuses) {
				break
			}
		}
		g.Expect(seen).To(Equal(statuses), line[0])
		turned = turned || len(statuses) > 1
	}
	g.Expect(turned).To(BeTrue(), "one line turns a 200 into a 429")
}

// A stopping process answers checks for the drain delay, while /readyz fails.
func TestGracefulDrain(t *testing.T) {
	g := NewWithT(t)
	draining := startStandalone(t, "--policies", "../../config/samples", "--drain-delay", "1h")
	draining.Signal(t, syscall.SIGTERM)
	g.Eventually(func() int { return draining.Status("/readyz") }).Should(Equal(http.StatusServiceUnavailable))
	status, _, err := draining.Check(`{"policies":["shop/burst"],"key":"late"}`)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(Equal(http.StatusOK), "checks are answered during the drain")
	draining.Kill(t)

	drained := startStandalone(t, "--policies", "../../config/samples", "--drain-delay", "300ms")
	drained.Signal(t, syscall.SIGTERM)
	g.Expect(drained.Cmd.Wait()).To(Succeed())
	g.Expect(drained.Log.String()).To(ContainSubstring(`"msg":"Stopped"`))
}
