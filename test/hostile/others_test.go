// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// othersRate is the calls a second of the others.
	othersRate = 400
	// othersTimeout is how long they wait for an answer.
	othersTimeout = 5 * time.Second
)

// Errors of a call, beside errors of the transport.
var (
	errDegraded = errors.New("degraded")
	errDenied   = errors.New("denied")
)

// clients calls all frontends for one host.
type clients struct {
	http      *http.Client
	base      string // of URLs
	grpc      *grpc.ClientConn
	frontends []func(ctx context.Context, host, user string) error
}

// newClients returns clients of the addresses. Their connections come from 127.0.0.1.
func newClients(httpAddress, grpcAddress string) (*clients, error) {
	conn, err := grpc.NewClient(grpcAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
	c := &clients{
		http: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 8, MaxIdleConnsPerHost: 8, DisableCompression: true}},
		base: "http://" + httpAddress, grpc: conn,
	}
	c.frontends = []func(context.Context, string, string) error{c.check, c.rateLimit, c.authorize, c.extAuthz}
	return c, err
}

func (c *clients) close() {
	c.http.CloseIdleConnections()
	_ = c.grpc.Close()
}

// send sends the request and returns why it was not admitted by Redis, or nil.
func (c *clients) send(r *http.Request) error {
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	switch {
	case response.Header.Get("Weir-Degraded") != "":
		return errDegraded
	case response.StatusCode == http.StatusTooManyRequests:
		return errDenied
	case response.StatusCode != http.StatusOK:
		return errors.New(response.Status)
	}
	return nil
}

func (c *clients) check(ctx context.Context, host, user string) error {
	body := fmt.Sprintf(`{"attributes":{"host":%q,"path":"/orders","headers":{"x-user":%q},"remoteAddress":"192.0.2.1"}}`, host, user)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/check", strings.NewReader(body))
	if err != nil {
		return err
	}
	return c.send(r)
}

// authorize calls as nginx does.
func (c *clients) authorize(ctx context.Context, host, user string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/authorize?deny=403", http.NoBody)
	if err != nil {
		return err
	}
	r.Header = http.Header{
		"X-Original-Uri": {"/orders"}, "X-Original-Method": {"GET"}, "X-Forwarded-Host": {host},
		"X-Forwarded-For": {"192.0.2.1"}, userHeader: {user},
	}
	return c.send(r)
}

func (c *clients) rateLimit(ctx context.Context, host, user string) error {
	response, err := ratelimitv3.NewRateLimitServiceClient(c.grpc).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain: host, Descriptors: []*commonv3.RateLimitDescriptor{
			{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: user}}},
		},
	})
	if err != nil {
		return err
	}
	return reasonOf(response.GetOverallCode() == ratelimitv3.RateLimitResponse_OK, response.GetResponseHeadersToAdd())
}

func (c *clients) extAuthz(ctx context.Context, host, user string) error {
	address := &corev3.SocketAddress{Address: "192.0.2.1"}
	response, err := authv3.NewAuthorizationClient(c.grpc).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: address}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Host: host, Path: "/orders", Headers: map[string]string{"x-user": user},
		}},
	}})
	if err != nil {
		return err
	}
	var headers []*corev3.HeaderValue
	for _, o := range append(response.GetOkResponse().GetResponseHeadersToAdd(), response.GetDeniedResponse().GetHeaders()...) {
		headers = append(headers, o.GetHeader())
	}
	return reasonOf(codes.Code(response.GetStatus().GetCode()) == codes.OK, headers)
}

// reasonOf returns why a request was not admitted by Redis, or nil.
func reasonOf(allowed bool, headers []*corev3.HeaderValue) error {
	for _, h := range headers {
		if strings.EqualFold(h.GetKey(), "Weir-Degraded") {
			return errDegraded
		}
	}
	if !allowed {
		return errDenied
	}
	return nil
}

// sample is what the others saw in one round.
type sample struct {
	latencies []time.Duration // sorted
	degraded  int
	failed    []error
}

// p99 is the latency that 99% of the calls did not exceed.
func (s *sample) p99() time.Duration { return s.latencies[len(s.latencies)*99/100] }

// run calls all frontends in turn at othersRate until stop is closed, with a number of calls together. It is an open loop: a call
// waits for no other one. Its latency counts from when it is sent; a timer that fires late delays all loads alike.
func (c *clients) run(tb testing.TB, stop <-chan struct{}, together int) *sample {
	tb.Helper()
	var (
		s    = &sample{}
		mu   sync.Mutex
		all  sync.WaitGroup
		due  = time.Now()
		wait = time.NewTimer(0)
	)
	defer wait.Stop()
	for n := 0; ; {
		wait.Reset(time.Until(due))
		due = due.Add(time.Duration(together) * time.Second / othersRate)
		select {
		case <-stop:
			all.Wait()
			slices.Sort(s.latencies)
			NewWithT(tb).Expect(s.latencies).NotTo(BeEmpty())
			return s
		case <-wait.C:
		}
		for range together {
			n++
			call := n
			all.Go(func() {
				took, err := c.call(tb, call)
				mu.Lock()
				defer mu.Unlock()
				s.add(took, err)
			})
		}
	}
}

// call makes the n-th call, and returns how long it took and why it was not admitted by Redis, or nil.
func (c *clients) call(tb testing.TB, n int) (time.Duration, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), othersTimeout) // busy: compared with a round without attack
	defer cancel()
	start := time.Now()
	err := c.frontends[n%len(c.frontends)](ctx, platformHost, fmt.Sprint("user-", n%50))
	return time.Since(start), err
}

func (s *sample) add(took time.Duration, err error) {
	s.latencies = append(s.latencies, took)
	switch {
	case errors.Is(err, errDegraded):
		s.degraded++
	case err != nil:
		s.failed = append(s.failed, err)
	}
}
