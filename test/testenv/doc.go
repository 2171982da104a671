// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testenv runs the servers that tests need: real Redis and Valkey servers,
// optionally with a clock that the test sets, a real Redis Cluster and real sentinels. It
// links nothing of Kubernetes: test/layout holds that.
//
// Its folders serve the tests that need more. What the tests of a package import decides which
// command runs them (hack/tiers.sh):
//
//   - kube: kube-apiserver, kubectl, helm
//   - proxy: Envoy, Caddy
//   - browser: Chromium
//   - process: weir and its plugin as processes, Prometheus
//   - testpolicy: RateLimitPolicies, for any test
//   - seeds: how many random operations a test makes, for any test
//
// Nothing is simulated or skipped: a missing program fails the test with the command
// that installs it. Every server belongs to the test that started it and stops with it,
// so tests can run in parallel.
//
// Read the files in this order:
//
//	registry.go      the keys of the registry
//	redis.go         Redis: one redis-server or valkey-server
//	calls.go         Calls: how often a server has run a command
//	pauses.go        Pauses: when the machine was too busy for a test
//	ports.go         FreeAddr: addresses for servers
//	clock.go         servers whose wall clock the test sets
//	cputime.go       CPUTime: the CPU time of processes
//	allocations.go   FewestAllocations: what a function allocates
//	cluster.go       RedisCluster: three masters, or another number
//	migration.go     Migration: moving a slot of a cluster
//	replicas.go      replicas of the masters of a cluster
//	sentinel.go      RedisSentinel: a master with a replica, watched by sentinels
//	rejecting.go     RejectingRedis: a server that rejects every command
//	network.go       Network: a network in front of a server, which fails
//	credentials.go   RotatingCredentials: credentials of a Redis that expire
//	certificates.go  Authority: a CA for tests
//	volume.go        Volume: the folder of a mounted Secret
//	http.go          Probe: whether a process is ready
//	log.go           Log: the log of a process under test
//	series.go        Series: the metrics of a process under test
//	pages.go         CodeBlocks: the code on a page of the documentation
//	programs.go      the repository, and the programs that hack installs
//	command.go       Command: a process that ends with the test
//	proc_linux.go    processes on Linux; proc_other.go elsewhere
package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// installHint is the command that installs missing programs.
const installHint = "run hack/redis.sh in the root of the repository"

// writeMutex serializes WriteOnce within one test binary.
var writeMutex sync.Mutex

// WriteOnce creates the file at path unless it exists. The file appears complete or not
// at all, even if several test binaries create it concurrently.
func WriteOnce(path string, write func(temporary string) error) error {
	writeMutex.Lock()
	defer writeMutex.Unlock()
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := write(temporary); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// await polls until the condition returns nil. After startTimeout it fails the test with
// the last error.
func await(tb testing.TB, what string, condition func() error) {
	tb.Helper()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	timeout := time.After(startTimeout)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout:
			tb.Fatalf("waited %v for %s: %v", startTimeout, what, err)
		}
	}
}
