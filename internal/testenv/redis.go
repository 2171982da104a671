// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const (
	// startTimeout is how long a server may take to answer. It is generous because
	// it is only ever reached on a machine that is far too busy.
	startTimeout = 20 * time.Second

	// pollInterval is how often a starting server is asked.
	pollInterval = 5 * time.Millisecond

	// portAttempts bounds how often another port is tried when somebody took the
	// one that was free a moment ago.
	portAttempts = 10
)

// Redis is a redis-server of its own for one test, without persistence.
type Redis struct {
	// Addr is where the server listens, as host:port. It survives Stop and Start.
	Addr string

	// URL is the same as a redis:// URL.
	URL string

	tb   testing.TB
	dir  string
	args []string
	env  []string
	cmd  *exec.Cmd
	done chan struct{}
}

// StartRedis starts a redis-server on a free port, waits until it answers and
// stops it when the test ends. The arguments, such as "--requirepass", "secret",
// go to redis-server behind the ones every test has.
func StartRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	return startRedis(tb, nil, args)
}

func startRedis(tb testing.TB, env, args []string) *Redis {
	tb.Helper()
	r := &Redis{tb: tb, dir: tb.TempDir(), args: args, env: env}
	tb.Cleanup(r.Stop)
	for range portAttempts {
		r.Addr = FreeAddr(tb)
		r.URL = "redis://" + r.Addr
		err := r.start()
		if err == nil {
			return r
		}
		if !errors.Is(err, errPortTaken) {
			tb.Fatal(err)
		}
	}
	tb.Fatalf("redis-server found no free port in %d attempts", portAttempts)
	return nil
}

// Start starts a stopped server again, empty, on the port it had. A server that
// runs is left alone.
func (r *Redis) Start() {
	r.tb.Helper()
	if r.cmd != nil {
		return
	}
	if err := r.start(); err != nil {
		r.tb.Fatal(err)
	}
}

// Stop kills the server, as a crash would: connections break and the data is
// gone. It returns when the process is gone; a stopped server is left alone.
func (r *Redis) Stop() {
	if r.cmd == nil {
		return
	}
	// Killing fails only if the process has ended by itself, which is as good.
	_ = r.cmd.Process.Kill()
	<-r.done
	r.cmd = nil
}

// Pause halts the process: the port accepts connections and nothing answers.
// It returns when the process has halted.
func (r *Redis) Pause() {
	r.tb.Helper()
	r.signal(syscall.SIGSTOP)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(startTimeout)
	for !halted(r.Pid()) {
		select {
		case <-ticker.C:
		case <-timeout:
			r.tb.Fatalf("redis-server does not halt within %v", startTimeout)
		}
	}
}

// Resume lets a paused process go on with what has queued up meanwhile.
func (r *Redis) Resume() {
	r.tb.Helper()
	r.signal(syscall.SIGCONT)
}

// Pid is the process id of the running server, and 0 while it is stopped.
func (r *Redis) Pid() int {
	if r.cmd == nil {
		return 0
	}
	return r.cmd.Process.Pid
}

func (r *Redis) signal(sig os.Signal) {
	r.tb.Helper()
	if r.cmd == nil {
		r.tb.Fatalf("signal %v for a redis-server that is stopped", sig)
	}
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.tb.Fatalf("signal %v: %v", sig, err)
	}
}

// errPortTaken reports that another process has bound the port since it was found
// free.
var errPortTaken = errors.New("port taken")

func (r *Redis) start() error {
	server, err := redisServer()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return err
	}
	logPath := filepath.Join(r.dir, "redis.log")
	if err := os.Remove(logPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := append([]string{
		"--bind", host, "--port", port, "--dir", r.dir, "--logfile", logPath,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}, r.args...)

	// The process ends with Stop; a context would end it at another time.
	cmd := exec.Command(server, args...)
	cmd.Env = append(os.Environ(), r.env...)
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", server, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // how it ended is in the log
	}()
	r.cmd, r.done = cmd, done

	if err := waitForRedis(r.Addr, done); err != nil {
		r.Stop()
		log, _ := os.ReadFile(logPath)
		if bytes.Contains(log, []byte("Address already in use")) {
			return errPortTaken
		}
		return fmt.Errorf("redis-server on %s: %w; its log:\n%s", r.Addr, err, log)
	}
	return nil
}

func redisServer() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no redis-server on PATH: " + toolsHint)
}

// waitForRedis returns when the server answers anything at all: one that asks for
// a password first is up too.
func waitForRedis(addr string, ended <-chan struct{}) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	timeout := time.After(startTimeout)
	for {
		if answers(addr) {
			return nil
		}
		select {
		case <-ended:
			return errors.New("ended at once")
		case <-timeout:
			return fmt.Errorf("no answer within %v", startTimeout)
		case <-ticker.C:
		}
	}
}

func answers(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 1)
	_, err = conn.Read(reply)
	// "+PONG", or "-NOAUTH ...". A server started with TLS only says nothing.
	return err == nil && (reply[0] == '+' || reply[0] == '-')
}

// FreeAddr returns an address of the loopback interface, as host:port, on which
// nobody listened a moment ago.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("free port: %v", err)
	}
	defer listener.Close()
	addr, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		tb.Fatalf("free port: listener has address %v", listener.Addr())
	}
	return net.JoinHostPort(addr.IP.String(), strconv.Itoa(addr.Port))
}
