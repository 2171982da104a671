// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/clock"
	"github.com/weir-dev/weir/test/testenv"
)

// durable returns the arguments of a Redis that loses nothing when it is killed. Its file lies in memory, which
// outlives the process: a disk that others keep busy would let the store's timeout pass at any time.
func durable(t *testing.T) []string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "weir-faults-") //nolint:usetesting // TempDir is on the disk
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return []string{"--dir", folder, "--appendonly", "yes", "--appendfsync", "always"}
}

// single is one Redis behind a proxy.
type single struct {
	redis *testenv.Redis
	proxy *testenv.Network
	admin *redis.Client // not through the proxy
}

func startSingle(t *testing.T, args ...string) *single {
	t.Helper()
	s := &single{redis: testenv.StartRedis(t, args...)}
	s.proxy = testenv.StartNetwork(t, s.redis.Addr)
	s.admin = redis.NewClient(&redis.Options{Addr: s.redis.Addr})
	t.Cleanup(func() { _ = s.admin.Close() })
	return s
}

// must runs a command on the Redis.
func (s *single) must(t *testing.T, args ...any) {
	t.Helper()
	NewWithT(t).Expect(s.admin.Do(t.Context(), args...).Err()).To(Succeed())
}

// system returns one weir process on the Redis.
func (s *single) system(begin, end func()) *system {
	return &system{redisURL: "redis://" + s.proxy.Addr, begin: begin, end: end}
}

// singleFaults are the faults of one Redis.
var singleFaults = []fault{
	{name: "Redis killed and restarted with its data (`appendfsync always`)", length: 2 * time.Second, degrades: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t, durable(t)...)
		return s.system(s.redis.Stop, s.redis.Start)
	}},
	{name: "Redis killed and restarted without its data", length: 2 * time.Second, degrades: true, incidents: 1, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(s.redis.Stop, s.redis.Start)
	}},
	{name: "Redis frozen for 5 s (`SIGSTOP`)", length: 5 * time.Second, degrades: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(s.redis.Pause, s.redis.Resume)
	}},
	{name: "network swallows all bytes", length: 3 * time.Second, degrades: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(s.proxy.BlackHole, s.proxy.Heal)
	}},
	{name: "replies delayed by 100 ms", length: 3 * time.Second, degrades: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(func() { s.proxy.Delay(100 * time.Millisecond) }, s.proxy.Heal)
	}},
	{name: "connections reset in the middle of replies", length: 2 * time.Second, degrades: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(s.proxy.ResetReplies, s.proxy.Heal)
	}},
	{name: "all replies lost for 5 ms, ten times a second", mayDegrade: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(func() { s.loseReplies(30) }, nil)
	}},
	{name: "`FLUSHALL`", incidents: 1, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(func() { s.must(t, "FLUSHALL") }, nil)
	}},
	{name: "`SCRIPT FLUSH`", setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(func() { s.must(t, "SCRIPT", "FLUSH") }, nil)
	}},
	{name: "`maxmemory` reached", length: 2 * time.Second, degrades: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(func() { s.must(t, "CONFIG", "SET", "maxmemory", "1") }, func() { s.must(t, "CONFIG", "SET", "maxmemory", "0") })
	}},
	{name: "rights of the ACL user revoked", length: 2 * time.Second, degrades: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		s.must(t, "ACL", "SETUSER", "weir", "on", ">secret", "~*", "&*", "+@all")
		result := s.system(
			func() { s.must(t, "ACL", "SETUSER", "weir", "-@all") },
			func() { s.must(t, "ACL", "SETUSER", "weir", "+@all") },
		)
		result.redisURL = "redis://weir:secret@" + s.proxy.Addr
		return result
	}},
	{name: "certificate and CA of Redis replaced", mayDegrade: true, setup: newCertificate},
	{name: "all connections closed (`CLIENT KILL`)", mayDegrade: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := startSingle(t)
		return s.system(func() { s.must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }, nil)
	}},
	{name: "clock of Redis 1 h back", setup: clockJump(-time.Hour)},
	{name: "clock of Redis 1 h forward", incidents: 1, setup: clockJump(time.Hour + time.Minute)},
}

// loseReplies loses all replies of Redis for 5 ms, that number of times, ten times a second.
func (s *single) loseReplies(times int) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for i := range 20 * times {
		<-ticker.C
		switch i % 20 {
		case 0:
			s.proxy.ResetReplies()
		case 1:
			s.proxy.Heal()
		}
	}
}

// newCertificate replaces the certificate of Redis by one of another CA, and the file with the CA
// that weir reads. Existing connections end.
func newCertificate(t *testing.T) *system {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	files := func(name string) string { return filepath.Join(dir, name) }
	issue := func() {
		authority := testenv.NewAuthority(t)
		cert, key := authority.Issue(t, "redis", "127.0.0.1")
		for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority.PEM} {
			g.Expect(os.WriteFile(files(name), text, 0o600)).To(Succeed())
		}
	}
	issue()
	address := testenv.FreeAddr(t)
	_, port, err := net.SplitHostPort(address)
	g.Expect(err).NotTo(HaveOccurred())
	s := startSingle(t, "--tls-port", port, "--tls-cert-file", files("tls.crt"), "--tls-key-file", files("tls.key"),
		"--tls-ca-cert-file", files("ca.crt"), "--tls-auth-clients", "no")
	return &system{
		redisURL: "rediss://" + address, args: []string{"--redis-ca-file", files("ca.crt")},
		begin: func() {
			issue()
			s.must(t, "CONFIG", "SET", "tls-cert-file", files("tls.crt"), "tls-key-file", files("tls.key"), "tls-ca-cert-file", files("ca.crt"))
			s.must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		},
	}
}

// clockJump changes the clock of Redis by d.
func clockJump(d time.Duration) func(*testing.T) *system {
	return func(t *testing.T) *system {
		t.Helper()
		process, clock := runningClock(t)
		return &system{redisURL: process.URL, begin: func() { clock.Advance(d) }}
	}
}

// runningClock starts a Redis with a clock that the test can change and that runs.
func runningClock(t *testing.T) (*testenv.Redis, *clock.Clock) {
	t.Helper()
	process, clock := testenv.StartRedisWithClock(t)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() { // the clock of the test stands still by itself
		defer close(ended)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		last := time.Now()
		for {
			select {
			case <-stop:
				return
			case now := <-ticker.C:
				clock.Advance(now.Sub(last))
				last = now
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
	return process, clock
}

func TestFaultsOfOneRedis(t *testing.T) {
	runEach(t, singleFaults)
}
