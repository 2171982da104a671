// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the clients against a real weir standalone, which hack/programs.sh builds from
// this repository.
package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gstruct"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/client"
	"github.com/weir-dev/weir/client/weirgrpc"
)

const policies = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: named, namespace: shop}
spec:
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 2, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: account, namespace: shop}
spec:
  matches: [{hosts: [shop.example], paths: [/cart]}]
  key: [{type: Header, header: {name: X-Account}}]
  onMissingKey: Deny
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 2, window: 1h}]
  denial: {code: TooManyAttempts, message: Slow down.}
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tokens, namespace: shop}
spec:
  reservations: {maxTTL: 1m}
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 100, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: failures, namespace: shop}
spec:
  matches: [{paths: [/login]}]
  key: [{type: Header, header: {name: X-Account}}]
  reservations: {maxTTL: 1m, cost: {cel: "response.code in [401, 500] ? 1 : 0"}}
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 3, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: failed-calls, namespace: shop}
spec:
  matches: [{domain: failures, descriptors: [{key: method}]}]
  key: [{type: Descriptor, descriptor: {key: user}}]
  reservations: {maxTTL: 1m, cost: {cel: "response.code == 404 ? 1 : 0"}}
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 2, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: calls, namespace: shop}
spec:
  matches: [{domain: shop, descriptors: [{key: method}]}]
  key: [{type: Descriptor, descriptor: {key: user}}]
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 2, window: 1h}]
`

// program is the path of weir, which hack/programs.sh builds.
const program = "../../bin/test/weir"

func TestMain(m *testing.M) {
	if _, err := os.Stat(program); err != nil {
		fmt.Fprintln(os.Stderr, err, "(run hack/programs.sh)")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// timeout is how long tests wait for what must happen.
const timeout = time.Minute

// server is a running weir.
type server struct {
	url, grpc string
	stop      func()
}

// startWeir starts weir on free ports and waits until it is ready.
func startWeir(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{url: "http://" + freeAddress(t), grpc: freeAddress(t)}
	var log bytes.Buffer
	cmd := &exec.Cmd{Path: program, SysProcAttr: dieWithTest(), Stderr: &log, Args: []string{
		program, "standalone", "--policies", dir, "--http-address", strings.TrimPrefix(s.url, "http://"),
		"--grpc-address", s.grpc, "--operator-address", "", "--metrics-address", "",
	}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	deadline := time.After(timeout)
	for every := time.Tick(20 * time.Millisecond); ; {
		if response, err := http.Get(s.url + "/readyz"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return s
			}
		}
		select {
		case <-every:
		case <-deadline:
			t.Fatal("weir is not ready")
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func (s *server) client(t *testing.T, mode client.FailMode) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: s.url, FailMode: mode, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheck(t *testing.T) {
	g, c := NewWithT(t), startWeir(t).client(t, client.Open)
	check := client.Check{Policies: []string{"shop/named"}, Key: []string{"alice"}}
	for _, remaining := range []int64{1, 0} {
		d, err := c.Check(t.Context(), check)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(d).To(And(HaveField("Allowed", true), HaveField("Reason", client.ReasonAllowed)))
		g.Expect(d.Limits).To(ConsistOf(HaveField("Remaining", remaining)))
		g.Expect(d.Header).To(And(HaveKey("Ratelimit"), HaveKey("Ratelimit-Policy")))
	}
	d, err := c.Check(t.Context(), check)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d).To(And(
		HaveField("Allowed", false), HaveField("Reason", client.ReasonLimitExceeded), HaveField("Status", 429),
		HaveField("Policy", "shop/named"), HaveField("Limit", "hourly"), HaveField("Code", "RateLimited"), HaveField("Detail", Not(BeEmpty())),
		HaveField("RetryAfter", BeNumerically(">", time.Minute)), HaveField("Header", HaveKey("Retry-After")),
	))
	d, err = c.Check(t.Context(), client.Check{Policies: []string{"shop/named"}, Key: []string{"bob"}, Cost: 3})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d).To(And(HaveField("Reason", client.ReasonCostExceedsThreshold), HaveField("RetryAfter", BeZero())))
}

func TestCheckWithoutADecision(t *testing.T) {
	g, c := NewWithT(t), startWeir(t).client(t, client.Open)
	d, err := c.Check(t.Context(), client.Check{Policies: []string{"shop/none"}})
	g.Expect(err).To(gstruct.PointTo(And(HaveField("Status", 404), HaveField("Code", "UnknownPolicy"))))
	g.Expect(d.Allowed).To(BeTrue())
	d, err = c.Check(t.Context(), client.Check{Policies: []string{"shop/named"}, Key: []string{""}})
	g.Expect(err).To(gstruct.PointTo(And(HaveField("Status", 400), HaveField("Field", Not(BeEmpty())))))
	g.Expect(d.Allowed).To(BeFalse())
}

func TestReserveAndCommit(t *testing.T) {
	g, c := NewWithT(t), startWeir(t).client(t, client.Open)
	check := client.Check{Policies: []string{"shop/tokens"}, Key: []string{"alice"}}
	reserve := func(estimate int, id string) *client.Reservation {
		request := client.Reserve{Check: check, TTL: 30 * time.Second, ID: id}
		request.Cost = estimate
		r, err := c.Reserve(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		return r
	}
	used := func() []int64 {
		peek := check
		peek.Peek = true
		d, err := c.Check(t.Context(), peek)
		g.Expect(err).NotTo(HaveOccurred())
		return []int64{d.Limits[0].Used, d.Limits[0].Held}
	}
	first := reserve(60, "r-1")
	g.Expect(first.Decision.Allowed).To(BeTrue())
	g.Expect(reserve(60, "r-1").Text()).To(Equal(first.Text()))
	g.Expect(used()).To(Equal([]int64{60, 60}))
	denied := reserve(50, "")
	g.Expect(denied.Decision).To(And(HaveField("Allowed", false), HaveField("WaitsFor", "Reservations"), HaveField("RetryAfter", time.Second)))
	open, err := first.Renew(t.Context(), time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(open).To(BeTrue())

	committed, err := c.Reservation(first.Text()).Commit(t.Context(), 10)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(committed).To(Equal(client.Committed{Committed: true, Policies: []client.CommittedPolicy{
		{Policy: "shop/tokens", Committed: true, Cost: 10, Estimate: 60},
	}}))
	again, err := first.Commit(t.Context(), 10)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.Committed).To(BeFalse())
	open, err = first.Renew(t.Context(), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(open).To(BeFalse())
	g.Expect(reserve(50, "").Cancel(t.Context())).To(Succeed())
	g.Expect(used()).To(Equal([]int64{10, 0}))

	for _, want := range []bool{true, false} {
		charge := client.Charge{Check: check, ID: "c-1"}
		charge.Cost = 200
		charged, err := c.Charge(t.Context(), charge)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(charged).To(Equal(want))
	}
	g.Expect(used()).To(Equal([]int64{210, 0}))
	_, err = c.Reserve(t.Context(), client.Reserve{Check: check, TTL: time.Hour})
	g.Expect(err).To(gstruct.PointTo(And(HaveField("Status", 400), HaveField("Field", "ttl"))))
}

// response is the response of the cart.
type response struct {
	status int
	header http.Header
}

// send sends a request for the cart through the middleware to a handler that answers "cart".
func send(t *testing.T, c *client.Client, headers ...string) response {
	t.Helper()
	g := NewWithT(t)
	shop := httptest.NewServer(c.Middleware(client.Middleware{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("cart"))
	})))
	defer shop.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, shop.URL+"/cart", nil)
	g.Expect(err).NotTo(HaveOccurred())
	request.Host = "shop.example"
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = answer.Body.Close() }()
	return response{answer.StatusCode, answer.Header}
}

func TestMiddleware(t *testing.T) {
	g, s := NewWithT(t), startWeir(t)
	c := s.client(t, client.Open)
	for range 2 {
		r := send(t, c, "X-Account", "alice")
		g.Expect(r.status).To(Equal(200))
		g.Expect(r.header).To(And(HaveKey("Ratelimit"), Not(HaveKey("Retry-After"))))
	}
	r := send(t, c, "X-Account", "alice")
	g.Expect(r.status).To(Equal(429))
	g.Expect(r.header).To(And(HaveKey("Ratelimit"), HaveKey("Retry-After"), HaveKeyWithValue("Content-Type", ConsistOf("application/problem+json"))))
	g.Expect(send(t, c).status).To(Equal(403), "without an account")
	g.Expect(send(t, c, "X-Account", "bob", "X-Account", "carol").status).To(Equal(403), "with two accounts")

	// Clients cannot lift their limits by requests that make the check invalid or too large.
	g.Expect(send(t, c, "X-Account", "dave", "X-Padding", strings.Repeat("x", 70<<10)).status).To(Equal(400))
	many := []string{"X-Account", "dave"}
	for range 65 {
		many = append(many, "X-Many", "x")
	}
	g.Expect(send(t, c, many...).status).To(Equal(400))

	s.stop()
	g.Expect(send(t, c, "X-Account", "alice").status).To(Equal(200), "fail mode Open")
	g.Expect(send(t, s.client(t, client.Closed), "X-Account", "alice").status).To(Equal(503), "fail mode Closed")
}

// guarded is a gRPC server behind the interceptors.
func guarded(t *testing.T, s *server, mode client.FailMode) healthpb.HealthClient {
	t.Helper()
	return guardedIn(t, s, weirgrpc.Options{Domain: "shop", FailMode: mode}, weirgrpc.Interceptor{})
}

// guardedIn is guarded with other options, and with an interceptor whose limiter and descriptors it sets.
func guardedIn(t *testing.T, s *server, o weirgrpc.Options, guard weirgrpc.Interceptor) healthpb.HealthClient {
	t.Helper()
	o.Conn, o.Timeout = dial(t, s.grpc), timeout
	limiter, err := weirgrpc.New(o)
	if err != nil {
		t.Fatal(err)
	}
	guard.Limiter = limiter
	guard.Describe = func(ctx context.Context, fullMethod string) []client.Descriptor {
		users := metadata.ValueFromIncomingContext(ctx, "user")
		if len(users) == 0 {
			return nil
		}
		return []client.Descriptor{{Entries: []client.Entry{{Key: "method", Value: fullMethod}, {Key: "user", Value: users[0]}}}}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shop := grpc.NewServer(grpc.UnaryInterceptor(guard.Unary), grpc.StreamInterceptor(guard.Stream))
	healthpb.RegisterHealthServer(shop, health.NewServer())
	go func() { _ = shop.Serve(listener) }()
	t.Cleanup(shop.Stop)
	return healthpb.NewHealthClient(dial(t, listener.Addr().String()))
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func as(t *testing.T, user string) context.Context {
	t.Helper()
	return metadata.AppendToOutgoingContext(t.Context(), "user", user)
}

func TestUnaryInterceptor(t *testing.T) {
	g, s := NewWithT(t), startWeir(t)
	shop := guarded(t, s, client.Open)
	call := func(ctx context.Context) (metadata.MD, error) {
		var header metadata.MD
		_, err := shop.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header))
		return header, err
	}
	for range 2 {
		header, err := call(as(t, "alice"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(header).To(And(HaveKey("ratelimit"), Not(HaveKey("retry-after"))))
	}
	header, err := call(as(t, "alice"))
	denial := status.Convert(err)
	g.Expect(denial.Code()).To(Equal(codes.ResourceExhausted))
	g.Expect(header).To(HaveKey("retry-after"))
	g.Expect(denial.Details()).To(HaveLen(1))
	g.Expect(denial.Details()[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration()).To(BeNumerically(">", time.Minute))
	_, err = call(t.Context())
	g.Expect(err).NotTo(HaveOccurred(), "a call without descriptors is not limited")

	s.stop()
	_, err = call(as(t, "alice"))
	g.Expect(err).NotTo(HaveOccurred(), "fail mode Open")
	_, err = guarded(t, s, client.Closed).Check(as(t, "alice"), &healthpb.HealthCheckRequest{})
	g.Expect(status.Code(err)).To(Equal(codes.Unavailable), "fail mode Closed")
}

func TestStreamInterceptor(t *testing.T) {
	g := NewWithT(t)
	shop := guarded(t, startWeir(t), client.Open)
	watch := func() error {
		stream, err := shop.Watch(as(t, "bob"), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	g.Expect(watch()).To(Succeed())
	g.Expect(watch()).To(Succeed())
	g.Expect(status.Code(watch())).To(Equal(codes.ResourceExhausted))
}
