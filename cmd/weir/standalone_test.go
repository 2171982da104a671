// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
	"github.com/weir-dev/weir/internal/testenv/process"
)

func TestMain(m *testing.M) {
	if policies, _ := strconv.Atoi(os.Getenv(stubPolicies)); policies > 0 {
		serveStubAPI(policies)
	}
	os.Exit(m.Run())
}

// weirProcess is a running weir process.
type weirProcess struct {
	cmd  *exec.Cmd
	http string
	log  testenv.Log
}

func startStandalone(t *testing.T, args ...string) *weirProcess {
	t.Helper()
	return startWeir(t, append([]string{"standalone"}, args...)...)
}

// startWeir starts weir and waits until it serves HTTP.
func startWeir(tb testing.TB, args ...string) *weirProcess {
	tb.Helper()
	return startCommand(tb, func(testing.TB, *exec.Cmd) {}, args...)
}

// startCommand starts weir as the function has changed the command, and waits until it serves HTTP.
func startCommand(tb testing.TB, change func(testing.TB, *exec.Cmd), args ...string) *weirProcess {
	tb.Helper()
	g := NewWithT(tb)
	p := &weirProcess{http: testenv.FreeAddr(tb)}
	args = append([]string{args[0], "--http-address", p.http, "--grpc-address", "", "--operator-address", "", "--metrics-address", ""}, args[1:]...)
	p.cmd = exec.Command(process.Weir(tb), args...)
	p.cmd.Stderr = &p.log
	change(tb, p.cmd)
	g.Expect(p.cmd.Start()).To(Succeed())
	tb.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
		if tb.Failed() {
			tb.Logf("log of process %d:\n%s", p.cmd.Process.Pid, p.log.String())
		}
	})
	g.Eventually(func() error {
		response, err := http.Get("http://" + p.http + "/healthz")
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}, "60s").Should(Succeed()) // many policy files take long
	return p
}

// check sends a check and returns the status and the longest retryAfter of its limits.
func (p *weirProcess) check(body string) (status int, retryAfter time.Duration, err error) {
	response, err := http.Post("http://"+p.http+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Limits []struct {
			RetryAfterMs int64 `json:"retryAfterMs"`
		} `json:"limits"`
	}
	err = json.NewDecoder(response.Body).Decode(&answer)
	for _, l := range answer.Limits {
		retryAfter = max(retryAfter, time.Duration(l.RetryAfterMs)*time.Millisecond)
	}
	return response.StatusCode, retryAfter, err
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
	var processes []*weirProcess
	for range 4 {
		processes = append(processes, startStandalone(t, "--policies", dir, "--redis-url", server.URL, "--store-timeout", "10s"))
	}
	for _, name := range []string{"fixed", "log"} {
		for round := range 3 {
			t.Run(fmt.Sprintf("%s/%d", name, round), func(t *testing.T) {
				g := NewWithT(t)
				var allowed, denied atomic.Int64
				var wg sync.WaitGroup
				for i := range 400 {
					wg.Go(func() {
						status, _, err := processes[i%4].check(fmt.Sprintf(`{"policies":["shop/%s"],"key":"round-%d"}`, name, round))
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
	p := startStandalone(t, "--policies", dir, "--redis-url", server.URL, "--store-timeout", "10s")
	check := func() (int, time.Duration) {
		status, retryAfter, err := p.check(`{"policies":["shop/block"],"key":"alice"}`)
		g.Expect(err).NotTo(HaveOccurred())
		return status, retryAfter
	}
	status, _ := check()
	g.Expect(status).To(Equal(http.StatusOK))
	before := time.Now()
	status, wait := check()
	g.Expect(status).To(Equal(http.StatusTooManyRequests))
	g.Expect(wait).To(Equal(700 * time.Millisecond))
	g.Eventually(func() int { status, _ := check(); return status }, "5s", "1ms").Should(Equal(http.StatusOK))
	g.Expect(time.Since(before)).To(BeNumerically(">=", 700*time.Millisecond))

	status, _ = check()
	g.Expect(status).To(Equal(http.StatusTooManyRequests))
	_, wait = check()
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
		for range 30 {
			status, _, err := p.check(line[1])
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

func TestGracefulDrain(t *testing.T) {
	g := NewWithT(t)
	p := startStandalone(t, "--policies", "../../config/samples", "--drain-delay", "300ms")
	g.Expect(p.cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	g.Eventually(func() int { return status(p, "/readyz") }, "5s", "5ms").Should(Equal(http.StatusServiceUnavailable))
	status, _, err := p.check(`{"policies":["shop/burst"],"key":"late"}`)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(Equal(http.StatusOK), "checks are answered during the drain")
	g.Expect(p.cmd.Wait()).To(Succeed())
	g.Expect(p.log.String()).To(ContainSubstring(`"msg":"Stopped"`))
}

func TestStandaloneRejectsInvalidFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no policies":      {nil, "--policies: at least one folder is required"},
		"a bad timeout":    {[]string{"--policies", ".", "--store-timeout", "0s"}, "--store-timeout 0s: must be more than 0"},
		"braces":           {[]string{"--policies", ".", "--redis-prefix", "{x}"}, "--redis-prefix"},
		"a bad network":    {[]string{"--policies", ".", "--trusted-proxies", "10.0.0.0/33"}, "--trusted-proxies"},
		"a bad URL":        {[]string{"--policies", "../../config/samples", "--redis-url", "memcached://x"}, "--redis-url: scheme \"memcached\""},
		"no TLS key":       {[]string{"--policies", ".", "--tls-cert-file", "x"}, "--tls-cert-file: needs --tls-key-file"},
		"no certificate":   {[]string{"--policies", ".", "--tls-key-file", "x"}, "--tls-key-file: needs --tls-cert-file"},
		"no TLS at all":    {[]string{"--policies", ".", "--client-ca-file", "x"}, "--client-ca-file: needs --tls-cert-file"},
		"no client CA":     {[]string{"--policies", ".", "--tls-cert-file", "x", "--tls-key-file", "x", "--allowed-client-names", "a"}, "--allowed-client-names: needs --client-ca-file"},
		"no such files":    {[]string{"--policies", "../../config/samples", "--tls-cert-file", "/no/cert", "--tls-key-file", "/no/key"}, "open /no/cert"},
		"a bad header":     {[]string{"--policies", ".", "--principal-header", "X-User:"}, "--principal-header"},
		"no token file":    {[]string{"--policies", ".", "--admin-token-file", "/no/token"}, "--admin-token-file: open /no/token"},
		"an empty token":   {[]string{"--policies", ".", "--admin-token-file", os.DevNull}, "--admin-token-file: /dev/null contains no token"},
		"a level":          {[]string{"--policies", ".", "--log-level", "loud"}, "--log-level"},
		"a detail":         {[]string{"--policies", ".", "--metrics-detail", "Key"}, "--metrics-detail \"Key\": must be Policy or Namespace"},
		"no such address":  {[]string{"--policies", "../../config/samples", "--http-address", "256.0.0.1:1", "--grpc-address", "", "--operator-address", "", "--metrics-address", ""}, `--http-address "256.0.0.1:1": lookup`},
		"no console":       {[]string{"--policies", ".", "--console", "--operator-address", ""}, "--console: needs --operator-address"},
		"no operator port": {[]string{"--policies", ".", "--operator-address", "localhost"}, `--operator-address "localhost": must be host:port, such as 127.0.0.1:8083, or empty`},
		"a port by name":   {[]string{"--policies", ".", "--operator-address", "localhost:weir"}, "must be host:port"},
		"a large port":     {[]string{"--policies", ".", "--operator-address", "localhost:65536"}, "must be host:port"},
		"all addresses":    {[]string{"--policies", ".", "--operator-address", ":8083"}, `--operator-address ":8083": beyond loopback it needs --tls-cert-file and --tls-key-file`},
		"another address":  {[]string{"--policies", ".", "--operator-address", "192.0.2.1:8083"}, "beyond loopback"},
		"another name":     {[]string{"--policies", ".", "--operator-address", "weir.example:8083"}, "beyond loopback"},
		"an unknown flag":  {[]string{"--polices", "."}, "unknown flag: --polices"},
		"an empty folder?": {[]string{"--policies", "../../docs/nowhere"}, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newStandaloneCommand()
			cmd.SetArgs(tc.args)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			NewWithT(t).Expect(cmd.ExecuteContext(t.Context())).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestVersion(t *testing.T) {
	g := NewWithT(t)
	cmd := newVersionCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	g.Expect(cmd.Execute()).To(Succeed())
	g.Expect(out.String()).To(MatchRegexp(`^weir \S+ \(commit \S+, built \S+\)\n$`))
}

// One process of this machine gets the default operator port; others do without.
func TestOperatorPortIsTaken(t *testing.T) {
	g := NewWithT(t)
	run := func(args ...string) error {
		cmd := newStandaloneCommand()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		cmd.SetArgs(append([]string{
			"--policies", "../../config/samples", "--http-address", testenv.FreeAddr(t), "--grpc-address", "", "--metrics-address", "",
		}, args...))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		return cmd.ExecuteContext(ctx)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:8083")
	if err == nil { // else another process has it, which is as good
		defer func() { g.Expect(taken.Close()).To(Succeed()) }()
	}
	g.Expect(run()).To(Succeed())
	g.Expect(run("--operator-address", "127.0.0.1:8083")).To(MatchError(`--operator-address "127.0.0.1:8083": address already in use`))
}

// The command prints the address of the console.
func TestStandalonePrintsTheConsole(t *testing.T) {
	g := NewWithT(t)
	run := func(args ...string) string {
		cmd := newStandaloneCommand()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(append([]string{
			"--policies", "../../config/samples", "--http-address", testenv.FreeAddr(t), "--grpc-address", "", "--metrics-address", "",
		}, args...))
		g.Expect(cmd.ExecuteContext(ctx)).To(Succeed())
		return out.String()
	}
	address := testenv.FreeAddr(t)
	g.Expect(run("--operator-address", address)).To(Equal("Console: http://" + address + "/console/\n"))
	g.Expect(run("--operator-address", address, "--console=false")).To(BeEmpty())
	g.Expect(run("--operator-address", "")).To(BeEmpty())
}
