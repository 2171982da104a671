// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// replica is a weir process that a test stops and starts again, on the same addresses.
type replica struct {
	t          *testing.T
	args       []string
	grpc, http string
	scheme     string
	client     *http.Client // of its probes
	log        testenv.Log
	cmd        *exec.Cmd
}

// start starts the process and waits until it is ready.
func (r *replica) start() {
	r.t.Helper()
	r.cmd = testenv.Command(process.Weir(r.t), r.args...)
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.SysProcAttr = &r.log, &r.log, testenv.DieWithParent()
	g := NewWithT(r.t)
	g.Expect(r.cmd.Start()).To(Succeed())
	g.Eventually(r.probe, "30s", "5ms").Should(Succeed(), r.log.String)
}

// probe returns an error unless the process is ready.
func (r *replica) probe() error { return testenv.Probe(r.client, r.scheme+"://"+r.http+"/readyz") }

// signal sends a signal to the process.
func (r *replica) signal(signal syscall.Signal) {
	r.t.Helper()
	NewWithT(r.t).Expect(r.cmd.Process.Signal(signal)).To(Succeed())
}

// stop sends the signal and waits until the process has ended. SIGTERM must end it without an error.
func (r *replica) stop(signal syscall.Signal) {
	r.t.Helper()
	r.signal(signal)
	if err := r.cmd.Wait(); signal == syscall.SIGTERM {
		NewWithT(r.t).Expect(err).NotTo(HaveOccurred(), r.log.String())
	}
	r.cmd = nil
}

// cleanup ends the process, also a frozen one.
func (r *replica) cleanup() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	}
	if r.t.Failed() {
		r.t.Logf("log of weir on %s:\n%s", r.grpc, r.log.String())
	}
}

// service is a Service: one address that forwards each new connection to the next of its endpoints.
// Existing connections stay with their endpoint.
type service struct {
	address   string
	next      atomic.Int64
	mu        sync.Mutex
	endpoints []string
}

// startService starts a Service without endpoints.
func startService(t *testing.T) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s := &service{address: listener.Addr().String()}
	var open sync.Map
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Store(client, nil)
			running.Go(func() { s.forward(client); open.Delete(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		open.Range(func(client, _ any) bool { return client.(net.Conn).Close() == nil || true })
		running.Wait()
	})
	return s
}

// route sets the endpoints of new connections.
func (s *service) route(endpoints ...*replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = nil
	for _, r := range endpoints {
		s.endpoints = append(s.endpoints, r.grpc)
	}
}

// forward copies between the client and an endpoint until one of them closes.
func (s *service) forward(client net.Conn) {
	defer func() { _ = client.Close() }()
	s.mu.Lock()
	endpoints := slices.Clone(s.endpoints)
	s.mu.Unlock()
	if len(endpoints) == 0 {
		return
	}
	server, err := net.Dial("tcp", endpoints[int(s.next.Add(1))%len(endpoints)])
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	both.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	both.Wait()
}
