// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startTimeout is how long a process may take until it is ready, and an election until it has a master.
const startTimeout = 30 * time.Second

// Process is a program that can be stopped and started again with the same arguments.
type Process struct {
	program string
	args    []string
	env     []string
	ready   func(ctx context.Context) error
	log     string // path

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// startProcess starts a program, and returns when it is ready. It stops with the environment.
func (e *Environment) startProcess(ctx context.Context, p *Process) error {
	folder, err := e.newFolder()
	if err != nil {
		return err
	}
	p.log = filepath.Join(folder, "log")
	e.onClose(func() error { p.Stop(); return nil })
	return p.Start(ctx)
}

// Start starts the program, and returns when it is ready.
func (p *Process) Start(ctx context.Context) error {
	if err := p.launch(); err != nil {
		return err
	}
	if err := await(ctx, p.exited, p.ready); err != nil {
		return p.failure(err)
	}
	return nil
}

// errEnded is returned if a program ends before it is ready.
var errEnded = errors.New("ended")

// await repeats the check until it succeeds, at most for startTimeout, and ends when ended is closed, if it is not nil.
func await(ctx context.Context, ended <-chan struct{}, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-ended:
			return errEnded
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *Process) launch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.program, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return nil
}

// failure adds the end of the log to an error.
func (p *Process) failure(err error) error {
	log, _ := os.ReadFile(p.log)
	const most = 4_000
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return fmt.Errorf("%s: %w\n%s", p.program, err, log)
}

// Stop asks the program to end, and kills it after ten seconds.
func (p *Process) Stop() {
	if !p.signal(syscall.SIGTERM) {
		return
	}
	_ = p.signal(syscall.SIGCONT)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		p.Kill()
	}
}

// Kill ends the program at once.
func (p *Process) Kill() {
	if p.signal(syscall.SIGKILL) {
		<-p.exited
	}
}

// Freeze stops the program without ending it, Thaw continues it.
func (p *Process) Freeze() error { return p.signalError(syscall.SIGSTOP) }

// Thaw continues a program.
func (p *Process) Thaw() error { return p.signalError(syscall.SIGCONT) }

func (p *Process) signalError(s syscall.Signal) error {
	if !p.signal(s) {
		return fmt.Errorf("%s does not run", p.program)
	}
	return nil
}

// signal sends a signal, and reports whether the program runs.
func (p *Process) signal(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && p.cmd.Process.Signal(s) == nil
}

// ResidentBytes returns the memory of the program.
func (p *Process) ResidentBytes() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS in the status of the process")
}

// dials returns a function that reports whether the address accepts connections.
func dials(address string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// versionOf returns the version in the build information of a Go program, or of its module.
func versionOf(program string) string {
	output, err := exec.Command("go", "version", "-m", program).Output()
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(output)) {
		if fields := strings.Fields(line); len(fields) >= 3 && fields[0] == "mod" {
			return fields[2]
		}
	}
	return "unknown"
}
