// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// Timeout is how long tests wait for what must happen. It only ends tests that fail.
const Timeout = 2 * time.Minute

// Running is a weir process.
type Running struct {
	// HTTP is the address of its HTTP API, host:port.
	HTTP string
	Cmd  *exec.Cmd
	Log  testenv.Log
}

// Start starts weir with the arguments, of which the first is a command, and waits until it serves HTTP. Without
// further arguments it opens no other ports. It stops with the test.
func Start(tb testing.TB, args ...string) *Running {
	tb.Helper()
	return StartCommand(tb, func(*exec.Cmd) {}, args...)
}

// StartCommand is Start with a function that changes the command before it starts.
func StartCommand(tb testing.TB, change func(*exec.Cmd), args ...string) *Running {
	tb.Helper()
	g := NewWithT(tb)
	p := &Running{HTTP: testenv.FreeAddr(tb)}
	args = append([]string{args[0], "--http-address", p.HTTP, "--grpc-address", "", "--operator-address", "", "--metrics-address", ""}, args[1:]...)
	p.Cmd = testenv.Command(Weir(tb), args...)
	p.Cmd.Stderr = &p.Log
	change(p.Cmd)
	g.Expect(p.Cmd.Start()).To(Succeed())
	tb.Cleanup(func() {
		if tb.Failed() {
			_ = p.Cmd.Process.Kill() // it may be frozen, or drain for long
		}
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
		_ = p.Cmd.Wait()
		if tb.Failed() {
			tb.Logf("log of process %d:\n%s", p.Cmd.Process.Pid, p.Log.String())
		}
	})
	g.Eventually(func() int { return p.Status("/healthz") }, "5m").ShouldNot(BeZero(), p.Log.String) // many policy files take long
	return p
}

// Signal sends a signal to the process.
func (p *Running) Signal(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	NewWithT(tb).Expect(p.Cmd.Process.Signal(signal)).To(Succeed())
}

// Kill kills the process and waits for its end.
func (p *Running) Kill(tb testing.TB) {
	tb.Helper()
	p.Signal(tb, syscall.SIGKILL)
	_ = p.Cmd.Wait() // the error is the signal
}

// Status returns the status of a GET of the path, or 0.
func (p *Running) Status(path string) int {
	response, err := http.Get("http://" + p.HTTP + path)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}

// Get returns the response to a GET of the path, with its headers; empty without a response.
func (p *Running) Get(path string) string {
	response, err := http.Get("http://" + p.HTTP + path)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	var text strings.Builder
	_ = response.Write(&text)
	return text.String()
}

// Post posts JSON and decodes the JSON of the answer.
func (p *Running) Post(path, body string, answer any) (status int, header http.Header, err error) {
	response, err := http.Post("http://"+p.HTTP+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode, response.Header, json.NewDecoder(response.Body).Decode(answer)
}

// Check sends a check and returns the status and the longest retryAfter of its limits.
func (p *Running) Check(body string) (status int, retryAfter time.Duration, err error) {
	var answer struct {
		Limits []struct{ RetryAfterMs int64 }
	}
	status, _, err = p.Post("/v1/check", body, &answer)
	for _, l := range answer.Limits {
		retryAfter = max(retryAfter, time.Duration(l.RetryAfterMs)*time.Millisecond)
	}
	return status, retryAfter, err
}

// DegradedCheck checks a key of a policy in the Namespace shop, and returns the status and the header Weir-Degraded.
func (p *Running) DegradedCheck(policy, key string) (status int, degraded string) {
	status, header, _ := p.Post("/v1/check", fmt.Sprintf(`{"policies":["shop/%s"],"key":%q}`, policy, key), &struct{}{})
	return status, header.Get("Weir-Degraded")
}

// Admits returns how many checks of the key of a policy in the Namespace shop pass before the first denial, at most 100.
func (p *Running) Admits(policy, key string) (n int) {
	for range 100 {
		if status, _ := p.DegradedCheck(policy, key); status != http.StatusOK {
			break
		}
		n++
	}
	return n
}

// Threshold returns the threshold that the process enforces for a key of a policy in the Namespace shop; 0 without a
// response, -404 for an unknown policy.
func (p *Running) Threshold(policy, key string) int64 {
	var answer struct{ Limits []struct{ Threshold int64 } }
	status, _, err := p.Post("/v1/check", fmt.Sprintf(`{"policies":["shop/%s"],"key":%q,"peek":true}`, policy, key), &answer)
	switch {
	case status == http.StatusNotFound:
		return -http.StatusNotFound
	case err != nil || len(answer.Limits) == 0:
		return 0
	}
	return answer.Limits[0].Threshold
}

// Enforces returns a function that returns the threshold of a policy in the Namespace shop.
func (p *Running) Enforces(policy string) func() int64 {
	return func() int64 { return p.Threshold(policy, "t") }
}

// Operator sends a call on the state of keys, and returns the status and the body.
func (p *Running) Operator(token, method, target, body string) (status int, text string) {
	request, err := http.NewRequest(method, "http://"+p.HTTP+target, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(data)
}

// Logged returns a function that returns how many lines of the log contain the text.
func (p *Running) Logged(text string) func() int {
	return func() int { return strings.Count(p.Log.String(), text) }
}

// MetricLines returns a function that returns the lines of the metrics at the address.
func MetricLines(address string) func() ([]string, error) {
	return func() ([]string, error) {
		response, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return strings.Split(string(body), "\n"), err
	}
}
