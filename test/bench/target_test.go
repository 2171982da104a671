// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

// target is a process under load.
type target struct {
	name    string
	address string // of gRPC or HTTP
	pid     int
	redis   int // process ID of its Redis; 0 without one

	// allowsAll is true for a service that allows every request of a denied workload.
	allowsAll bool
}

// weirTargets starts weir on an empty Redis and returns its gRPC and its HTTP address as
// targets. policies is a folder.
func weirTargets(tb testing.TB, policies string) (overGRPC, overHTTP target) {
	tb.Helper()
	redis := testenv.StartRedis(tb)
	grpcAddress, httpAddress := testenv.FreeAddr(tb), testenv.FreeAddr(tb)
	pid := startProcess(tb, exec.Command(testenv.Weir(tb), "standalone", "--policies", policies, "--redis-url", redis.URL,
		"--grpc-address", grpcAddress, "--http-address", httpAddress, "--metrics-address", ""), grpcAddress)
	overGRPC = target{name: "Weir", address: grpcAddress, pid: pid, redis: redis.Pid()}
	overHTTP = target{name: "Weir", address: httpAddress, pid: pid, redis: redis.Pid()}
	return overGRPC, overHTTP
}

// noopTarget starts a no-op service of the kind, which answers the response.
func noopTarget(tb testing.TB, name, kind string, response []byte) target {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "response")
	NewWithT(tb).Expect(os.WriteFile(file, response, 0o600)).To(Succeed())
	address := testenv.FreeAddr(tb)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envNoop+"="+kind, envAddress+"="+address, envResponse+"="+file)
	return target{name: name, address: address, pid: startProcess(tb, cmd, address)}
}

// startProcess starts the command, waits until the address accepts connections, and stops
// it when the benchmark ends.
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
	g.Eventually(func() error { return dial(address) }, "20s", "10ms").Should(Succeed(), log.String())
	return cmd.Process.Pid
}

// ticksPerSecond is the unit of CPU time in /proc (USER_HZ).
const ticksPerSecond = 100

// cpuTime returns the CPU time of a process so far; 0 for process ID 0.
func cpuTime(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	if pid == 0 {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatalf("CPU time of process %d: %v", pid, err)
	}
	// The name of the program, in parentheses, may contain spaces.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			tb.Fatalf("CPU time of process %d: %v", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
