// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the examples of docs/integrations: real proxies in front of
// a small upstream, and client programs, with a real weir on a real Redis.
package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

const (
	root = "../.."
	// hint is the command that installs missing programs.
	hint = "run `make proxy-tools`, which installs it"
)

// world is a weir with the sample policies, an upstream, and the addresses that replace
// the names in the documents.
type world struct {
	weir, grpc, upstream, proxy string
}

// noNameless is a policy that denies every request without a user.
const noNameless = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: no-nameless, namespace: shop}
spec:
  key: [{type: Header, header: {name: X-Account}}]
  onMissingKey: Deny
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 10, window: 1h}]
`

// newWorld starts a weir with the sample policies and any further ones. It trusts
// 127.0.0.1, the address of the proxies, but not 127.0.0.2, the address of the clients.
func newWorld(t *testing.T, more ...string) *world {
	t.Helper()
	return newWorldWith(t, nil, more...)
}

// newWorldWith is newWorld with further flags of weir.
func newWorldWith(t *testing.T, flags []string, more ...string) *world {
	t.Helper()
	policies := t.TempDir()
	text := strings.Join(append(more, noNameless), "\n---\n")
	NewWithT(t).Expect(os.WriteFile(filepath.Join(policies, "p.yaml"), []byte(text), 0o600)).To(Succeed())
	w := &world{weir: testenv.FreeAddr(t), grpc: testenv.FreeAddr(t), upstream: newUpstream(t), proxy: testenv.FreeAddr(t)}
	run(t, w.weir, testenv.Command(process.Weir(t), slices.Concat([]string{
		"standalone", "--policies", root + "/config/samples", "--policies", policies, "--redis-url", testenv.StartRedis(t).URL,
		"--http-address", w.weir, "--grpc-address", w.grpc, "--operator-address", "", "--metrics-address", "",
		"--trusted-proxies", "127.0.0.1/32", "--store-timeout", "60s",
	}, flags)...))
	return w
}

// newUpstream starts an upstream and returns its address.
func newUpstream(t *testing.T) string {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s for %s", r.Method, r.URL, r.Header.Get("X-Api-Key"))
	}))
	t.Cleanup(upstream.Close)
	return upstream.Listener.Addr().String()
}

// block returns the fenced block of a language from a page, with the addresses of this
// world, and the further replacements in pairs.
func (w *world) block(t *testing.T, page, language string, pairs ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/integrations", page))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	found := regexp.MustCompile("(?s)```" + language + "\n(.*?)\n```").FindSubmatch(text)
	NewWithT(t).Expect(found).NotTo(BeNil(), "%s has a block of %s", page, language)
	pairs = append(pairs, "weir.weir-system.svc:8080", w.weir, "weir.weir-system.svc.cluster.local:8080", w.weir, "shop.shop.svc:8080", w.upstream)
	block := string(found[1])
	for i := 0; i < len(pairs); i += 2 {
		block = strings.ReplaceAll(block, pairs[i], pairs[i+1])
	}
	return block + "\n"
}

// run starts a server, waits until it listens on the address, and stops it when the test
// ends.
func run(t *testing.T, address string, cmd *exec.Cmd) {
	t.Helper()
	g, log := NewWithT(t), &testenv.Log{}
	cmd.Stdout, cmd.Stderr = log, log
	g.Expect(cmd.Start()).To(Succeed())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the log has the cause
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", cmd.Path, log.String())
		}
	})
	g.Eventually(func() error {
		select {
		case <-ended:
			return StopTrying("it ended: " + log.String())
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}, "30s").Should(Succeed())
}

// clientFrom returns an HTTP client that connects from the given loopback address.
func clientFrom(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   string
}

// get sends a request; the headers are given in pairs.
func get(t *testing.T, client *http.Client, url string, headers ...string) answer {
	t.Helper()
	g := NewWithT(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	g.Expect(err).NotTo(HaveOccurred())
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	return send(t, client, r)
}

func send(t *testing.T, client *http.Client, r *http.Request) answer {
	t.Helper()
	g := NewWithT(t)
	response, err := client.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return answer{response.StatusCode, response.Header, string(body)}
}

// budget is the state of a limit.
type budget struct{ Used, Held, Remaining int64 }

// peek returns the state of the only limit that the check with that body has. The check spends nothing.
func (w *world) peek(t *testing.T, body string) budget {
	t.Helper()
	g := NewWithT(t)
	response, err := http.Post("http://"+w.weir+"/v1/check", "application/json", strings.NewReader(body))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	var decision struct{ Limits []budget }
	g.Expect(json.NewDecoder(response.Body).Decode(&decision)).To(Succeed())
	g.Expect(decision.Limits).To(HaveLen(1))
	return decision.Limits[0]
}
