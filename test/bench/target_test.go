// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// target is a process under load.
type target struct {
	name    string
	address string // of gRPC or HTTP
	host    string // of HTTP requests; empty is the address
	connect connector
	pid     int
	redis   []int // process IDs of its Redis servers

	// allowsAll is true for a service that allows every request of a denied workload.
	allowsAll bool
}

// weirTargets starts weir on an empty Redis and returns its gRPC and its HTTP address as
// targets. policies is a folder.
func weirTargets(tb testing.TB, policies string) (overGRPC, overHTTP *target) {
	tb.Helper()
	redis := testenv.StartRedis(tb)
	return startWeir(tb, policies, redis.URL, []int{redis.Pid()})
}

// startWeir starts weir on the Redis servers with the URL and the process IDs. It waits
// longer for Redis than by default, so that a pause of a busy machine lengthens a call and
// does not let the failure mode decide. args come last.
func startWeir(tb testing.TB, policies, redisURL string, redis []int, args ...string) (overGRPC, overHTTP *target) {
	tb.Helper()
	grpcAddress, httpAddress := testenv.FreeAddr(tb), testenv.FreeAddr(tb)
	args = append([]string{
		"standalone", "--policies", policies, "--redis-url", redisURL, "--store-timeout", "1s",
		"--grpc-address", grpcAddress, "--http-address", httpAddress, "--operator-address", "", "--metrics-address", "",
	}, args...)
	pid := startProcess(tb, testenv.Command(process.Weir(tb), args...), grpcAddress)
	overGRPC = &target{name: weirName, address: grpcAddress, connect: connectEnvoy, pid: pid, redis: redis}
	overHTTP = &target{name: weirName, address: httpAddress, pid: pid, redis: redis}
	return overGRPC, overHTTP
}

// noopTarget starts a no-op service of the kind, which answers the response.
func noopTarget(tb testing.TB, name, kind string, response []byte) *target {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "response")
	NewWithT(tb).Expect(os.WriteFile(file, response, 0o600)).To(Succeed())
	address := testenv.FreeAddr(tb)
	cmd := testenv.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envNoop+"="+kind, envAddress+"="+address, envResponse+"="+file)
	return &target{
		name: name, address: address, connect: connectEnvoy, pid: startProcess(tb, cmd, address),
		allowsAll: kind == noopPlain,
	}
}

// startProcess starts the command, waits until the address accepts connections, and stops
// it when the benchmark ends, or is killed.
func startProcess(tb testing.TB, cmd *exec.Cmd, address string) (pid int) {
	tb.Helper()
	g := NewWithT(tb)
	log := &testenv.Log{}
	cmd.Stdout, cmd.Stderr = log, log
	g.Expect(cmd.Start()).To(Succeed())
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if tb.Failed() {
			tb.Logf("%s:\n%s", cmd.Path, log.String())
		}
	})
	g.Eventually(func() error { return dial(address) }, "30s", "10ms").Should(Succeed(), log.String())
	return cmd.Process.Pid
}

// portOf returns the port of host:port.
func portOf(tb testing.TB, address string) string {
	tb.Helper()
	_, port, err := net.SplitHostPort(address)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return port
}
