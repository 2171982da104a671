// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// The file flags suffice for a Redis that requires a user, a password and mTLS.
func TestRedisFileFlags(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		g.Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
		return path
	}
	authority := testenv.NewAuthority(t)
	ca := write("ca.crt", authority.PEM)
	cert, key := authority.Issue(t, "both", "127.0.0.1")
	certFile, keyFile := write("tls.crt", cert), write("tls.key", key)
	addr := testenv.FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	g.Expect(err).NotTo(HaveOccurred())
	testenv.StartRedis(t, "--user", "weir", "on", ">s3cret", "~*", "&*", "+@all", "--tls-port", port,
		"--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", ca)

	// A policy whose failureMode is Closed: without Redis, 503.
	p := startStandalone(t, "--policies", "../../config/samples", "--redis-url", "rediss://"+addr, "--store-timeout", "60s",
		"--redis-username-file", write("username", []byte("weir\n")), "--redis-password-file", write("password", []byte("s3cret\n")),
		"--redis-ca-file", ca, "--redis-cert-file", certFile, "--redis-key-file", keyFile)
	g.Eventually(func() (int, error) {
		status, _, err := p.Check(`{"policies":["shop/login"],"key":"alice"}`)
		return status, err
	}).Should(Equal(http.StatusOK))
}

// While the credentials of Redis change every second and a half, each check is decided with Redis.
func TestCredentialsCommand(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	rotating := testenv.NewRotatingCredentials(t, server)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(`
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: p, namespace: shop}
spec:
  failureMode: Closed
  limits: [{name: l, algorithm: FixedWindow, threshold: 1000000, window: 1h}]
`), 0o600)).To(Succeed())
	p := startStandalone(t, "--policies", dir, "--redis-url", server.URL, "--store-timeout", "60s", "--redis-credentials-command", rotating.Command)
	var callers sync.WaitGroup
	outcomes := make([]map[int]int, 8)
	for i := range outcomes {
		outcomes[i] = map[int]int{}
		callers.Go(func() {
			for rotating.Runs() < 5 {
				status, _, _ := p.Check(`{"policies":["shop/p"]}`)
				outcomes[i][status]++
			}
		})
	}
	callers.Wait()
	for _, o := range outcomes {
		g.Expect(o).To(And(HaveLen(1), HaveKey(http.StatusOK)))
	}
	g.Expect(p.Log.String()).NotTo(ContainSubstring("password-"))
}

// The URL in a file may have a password, and it appears neither in the arguments nor in errors.
func TestRedisURLFile(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "url")
	write := func(text string) { g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed()) }
	server := testenv.StartRedis(t, "--requirepass", "s3cret")
	write("redis://:s3cret@" + server.Addr + "\n")
	p := startStandalone(t, "--policies", "../../config/samples", "--redis-url-file", file, "--store-timeout", "60s")
	// The failureMode of this policy is Closed: without Redis, 503.
	status, _, err := p.Check(`{"policies":["shop/login"],"key":"alice"}`)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(p.Log.String()).NotTo(ContainSubstring("s3cret"))

	run := func(args ...string) string {
		out, err := testenv.Command(process.Weir(t), append(args, "--policies", "../../config/samples", "--redis-url-file", file)...).CombinedOutput()
		g.Expect(err).To(HaveOccurred())
		g.Expect(string(out)).NotTo(ContainSubstring("s3cret"))
		return string(out)
	}
	g.Expect(run("standalone", "--redis-url", "redis://a")).To(ContainSubstring("--redis-url, --redis-url-file: choose one"))
	write("http://:s3cret@a")
	g.Expect(run("standalone")).To(ContainSubstring(`scheme "http"`))
	write("\n")
	g.Expect(run("standalone")).To(ContainSubstring("--redis-url-file " + file + ": is empty"))
	g.Expect(os.Remove(file)).To(Succeed())
	g.Expect(run("standalone")).To(ContainSubstring("--redis-url-file: open"))
}
