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
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// startTimeout bounds the start of a server. It is generous, for very busy machines.
	startTimeout = time.Minute

	// pollInterval is the time between polls of a server.
	pollInterval = 5 * time.Millisecond

	// portAttempts bounds the attempts to find a port that no other process takes first.
	portAttempts = 10
)

// The programs of the servers.
const (
	redisServer  = "redis-server"
	valkeyServer = "valkey-server"
)

// Redis is a redis-server or valkey-server for one test, without persistence.
type Redis struct {
	// Addr is the address of the server, host:port. It stays the same after Stop and
	// Start.
	Addr string

	// URL is the address as a redis:// URL.
	URL string

	tb      testing.TB
	program string
	dir     string
	args    []string
	env     []string
	bus     string // address for other nodes of a cluster; "" without a cluster
	config  string // configuration file of a sentinel; "" for a data node
	tlsAddr string // address with TLS; "" without TLS
	cmd     *exec.Cmd
	done    chan struct{}
}

// StartRedis starts a redis-server on a free port, waits until it answers and
// stops it when the test ends. The arguments, such as "--requirepass", "secret", are
// appended to the arguments of every test.
func StartRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	r := &Redis{tb: tb, program: redisServer, args: args}
	r.launch(false)
	return r
}

// StartValkey is StartRedis for a valkey-server.
func StartValkey(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	r := &Redis{tb: tb, program: valkeyServer, args: args}
	r.launch(false)
	return r
}

// launch starts the server for the first time, on free ports.
func (r *Redis) launch(clustered bool) {
	r.tb.Helper()
	r.dir = r.tb.TempDir()
	r.tb.Cleanup(r.Stop)
	for range portAttempts {
		r.Addr = FreeAddr(r.tb)
		r.URL = "redis://" + r.Addr
		if clustered {
			r.bus = FreeAddr(r.tb)
		}
		err := r.start()
		if err == nil {
			return
		}
		if !errors.Is(err, errPortTaken) {
			r.tb.Fatal(err)
		}
	}
	r.tb.Fatalf("%s found no free port in %d attempts", r.program, portAttempts)
}

// Start restarts a stopped server, empty, on the same port. It does nothing if the server
// runs.
func (r *Redis) Start() {
	r.tb.Helper()
	if r.cmd != nil {
		return
	}
	if err := r.start(); err != nil {
		r.tb.Fatal(err)
	}
}

// Stop kills the server like a crash: connections break and the data is lost. It returns
// when the process has ended. It does nothing if the server is stopped.
func (r *Redis) Stop() {
	if r.cmd == nil {
		return
	}
	// Kill fails only if the process has already ended.
	_ = r.cmd.Process.Kill()
	<-r.done
	r.cmd = nil
}

// Pause halts the process: the port accepts connections but sends no replies. It returns
// when the process has halted.
func (r *Redis) Pause() {
	r.tb.Helper()
	Halt(r.tb, r.cmd.Process)
}

// Halt sends SIGSTOP and returns when every thread of the process has stopped: on a busy machine threads run on for
// a while after kill has returned.
func Halt(tb testing.TB, process *os.Process) {
	tb.Helper()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		tb.Fatal(err)
	}
	await(tb, "the process to halt", func() error {
		if !halted(process.Pid) {
			return errors.New("still running")
		}
		return nil
	})
}

// Resume continues a paused process, which then handles the queued commands.
func (r *Redis) Resume() {
	r.tb.Helper()
	r.signal(syscall.SIGCONT)
}

// Pid returns the process ID of the running server, 0 while it is stopped.
func (r *Redis) Pid() int {
	if r.cmd == nil {
		return 0
	}
	return r.cmd.Process.Pid
}

func (r *Redis) signal(sig os.Signal) {
	r.tb.Helper()
	if r.cmd == nil {
		r.tb.Fatalf("signal %v for a %s that is stopped", sig, r.program)
	}
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.tb.Fatalf("signal %v: %v", sig, err)
	}
}

// errPortTaken means that another process has bound the port in the meantime.
var errPortTaken = errors.New("port taken")

func (r *Redis) start() error {
	server, err := exec.LookPath(r.program)
	if err != nil {
		return fmt.Errorf("no %s on PATH: %s", r.program, installHint)
	}
	host, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return err
	}
	logPath := filepath.Join(r.dir, "redis.log")
	if err := os.Remove(logPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := []string{
		"--bind", host, "--port", port, "--dir", r.dir, "--logfile", logPath,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}
	if r.config != "" {
		args = []string{r.config, "--sentinel", "--bind", host, "--port", port, "--dir", r.dir, "--logfile", logPath}
	}
	if r.bus != "" {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", portOf(r.bus))
	}
	args = append(args, r.args...)

	// Only Stop ends the process, no context.
	cmd := exec.Command(server, args...)
	cmd.Env = append(os.Environ(), r.env...)
	cmd.SysProcAttr = DieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", server, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // the log has the cause
	}()
	r.cmd, r.done = cmd, done

	if err := waitForRedis(r.Addr, done); err != nil {
		r.Stop()
		log, _ := os.ReadFile(logPath)
		if bytes.Contains(log, []byte("Address already in use")) {
			return errPortTaken
		}
		return fmt.Errorf("%s on %s: %w; its log:\n%s", r.program, r.Addr, err, log)
	}
	return nil
}

// waitForRedis waits for any reply of the server, even an error that requires a password.
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
			return errors.New("ended during the start")
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
	// "+PONG" or "-NOAUTH ...". A server with TLS only never replies.
	return err == nil && (reply[0] == '+' || reply[0] == '-')
}

// hostOf returns the host of host:port.
func hostOf(addr string) string {
	return addr[:strings.LastIndexByte(addr, ':')]
}

// portOf returns the port of host:port.
func portOf(addr string) string {
	return addr[strings.LastIndexByte(addr, ':')+1:]
}
