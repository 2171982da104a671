// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// storeTimeout is the time that a decision waits for Redis, lossyTimeout where single replies are lost, and patientTimeout
// where Redis works, so that a pause of a busy machine does not let the failure mode decide.
const (
	storeTimeout   = 50 * time.Millisecond
	lossyTimeout   = 2 * time.Second
	patientTimeout = 30 * time.Second
)

// recoveryTime is how long after a fault Redis decides again, with time for a busy machine: docs/reliability.md has the
// times of one that is not.
const recoveryTime = 30 * time.Second

// policies are the limits under load.
const policies = `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: open, namespace: faults}
spec:
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 300, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: closed, namespace: faults}
spec:
  failureMode: Closed
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 300, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: local, namespace: faults}
spec:
  failureMode: Local
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 300, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: second, namespace: faults}
spec:
  limits: [{name: second, algorithm: SlidingLog, threshold: 20, window: 1s}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: many, namespace: faults}
spec:
  limits: [{name: hourly, algorithm: TokenBucket, threshold: 1000000, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: sliced, namespace: faults}
spec:
  slices: {maxPercent: 50, maxAge: 1s}
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 750, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: rolling, namespace: faults}
spec:
  slices: {maxPercent: 50, maxAge: 500ms}
  limits: [{name: ten-seconds, algorithm: SlidingLog, threshold: 750, window: 10s}]
`

// weir is one weir process.
type weir struct {
	tb      testing.TB
	args    []string
	address string // of the HTTP API
	metrics string
	log     *testenv.Log
	cmd     *exec.Cmd
}

// standalone returns the arguments of weir without Kubernetes, on the Redis with the URL.
func standalone(tb testing.TB, redisURL string) []string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "weir-faults-") //nolint:usetesting // the flag takes a list, and TempDir may have commas
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	NewWithT(tb).Expect(os.WriteFile(filepath.Join(folder, "policies.yaml"), []byte(policies), 0o600)).To(Succeed())
	return []string{"standalone", "--policies", folder, "--redis-url", redisURL, "--store-timeout", storeTimeout.String()}
}

// startProcess starts weir with the arguments, on addresses of its own, and waits until it is ready.
func startProcess(tb testing.TB, args ...string) *weir {
	tb.Helper()
	w := newProcess(tb, args...)
	w.start()
	return w
}

// newProcess returns weir with the arguments, not started. It stops with the test.
func newProcess(tb testing.TB, args ...string) *weir {
	tb.Helper()
	w := &weir{tb: tb, address: testenv.FreeAddr(tb), metrics: testenv.FreeAddr(tb), log: &testenv.Log{}}
	w.args = append(slices.Clip(args), "--http-address", w.address, "--grpc-address", "", "--operator-address", "", "--metrics-address", w.metrics)
	tb.Cleanup(func() {
		w.stop(syscall.SIGTERM)
		if tb.Failed() {
			tb.Logf("weir on %s:\n%s", w.address, w.log.String())
		}
	})
	return w
}

// start starts the process and waits until it is ready.
func (w *weir) start() {
	w.tb.Helper()
	w.launch()
	g := NewWithT(w.tb)
	g.Eventually(func() error { return get("http://" + w.address + "/readyz") }, "30s", "5ms").Should(Succeed(), w.log.String)
}

// launch starts the process.
func (w *weir) launch() {
	w.tb.Helper()
	w.cmd = testenv.Command(process.Weir(w.tb), w.args...)
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	NewWithT(w.tb).Expect(w.cmd.Start()).To(Succeed())
}

// stop ends the process by the signal, unless it has ended.
func (w *weir) stop(signal syscall.Signal) {
	if w.cmd == nil {
		return
	}
	_ = w.cmd.Process.Signal(signal)
	_ = w.cmd.Wait()
	w.cmd = nil
}

// prober gives up on a process that is frozen.
var prober = &http.Client{Timeout: time.Second}

func get(url string) error { return testenv.Probe(prober, url) }

// metric returns the sum of the series of a metric that have the labels, each as name="value".
func (w *weir) metric(name string, labels ...string) float64 {
	w.tb.Helper()
	return testenv.Scrape(w.tb, w.metrics).Sum(name, labels...)
}

// threshold returns the threshold of a policy that the process enforces, or 0.
func (w *weir) threshold(policy string) int64 {
	body := `{"policies":["faults/` + policy + `"],"key":"threshold","peek":true}`
	response, err := prober.Post("http://"+w.address+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct{ Limits []struct{ Threshold int64 } }
	if json.NewDecoder(response.Body).Decode(&answer) != nil || len(answer.Limits) == 0 {
		return 0
	}
	return answer.Limits[0].Threshold
}
