// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// connections is the number of gRPC connections that the callers share, about one for each
// worker thread of a proxy.
const connections = 2

// dial reports whether the address accepts connections.
func dial(address string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// workload is the set of requests that callers send in turn.
type workload struct {
	name   string
	entry  string // "allowed" or "denied", which selects the policy
	grpc   []*ratelimitv3.RateLimitRequest
	bodies [][]byte // of POST /v1/check
	order  []int    // in which requests are sent; nil is one after the other
}

// keysOf returns a workload over n keys.
func keysOf(name, entry string, n int) *workload {
	w := &workload{name: name, entry: entry}
	for i := range n {
		value := userOf(i)
		w.grpc = append(w.grpc, &ratelimitv3.RateLimitRequest{
			Domain: "bench",
			Descriptors: []*commonv3.RateLimitDescriptor{{
				Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: entry, Value: value}},
			}},
		})
		w.bodies = append(w.bodies, fmt.Appendf(nil, `{"policies":["bench/%s"],"key":%q}`, entry, value))
	}
	return w
}

func userOf(i int) string { return fmt.Sprintf("user-%d", i) }

// denied reports whether every request is denied, once each key is exhausted.
func (w *workload) denied() bool { return w.entry == "denied" }

// at returns the request of a caller's n-th call.
func (w *workload) at(caller, n int) int {
	if w.order != nil {
		return w.order[(caller*99_991+n)%len(w.order)]
	}
	return (caller*997 + n) % len(w.grpc)
}

var errUnexpected = errors.New("unexpected decision")

// sender sends the i-th request of a workload and reports whether it was allowed.
type sender func(ctx context.Context, i int) (allowed bool, err error)

// connector opens a connection for a workload.
type connector func(tb testing.TB, address string, w *workload) sender

// newConn returns a connection over gRPC.
func newConn(tb testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	c, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// newClient returns a client with a connection of its own.
func newClient(tb testing.TB, address string, options ...grpc.DialOption) ratelimitv3.RateLimitServiceClient {
	tb.Helper()
	return ratelimitv3.NewRateLimitServiceClient(newConn(tb, address, options...))
}

// connectEnvoy is the connector of Envoy's rate limit protocol.
func connectEnvoy(tb testing.TB, address string, w *workload) sender {
	tb.Helper()
	client := newClient(tb, address)
	return func(ctx context.Context, i int) (bool, error) {
		r, err := client.ShouldRateLimit(ctx, w.grpc[i])
		return r.GetOverallCode() == ratelimitv3.RateLimitResponse_OK, err
	}
}

// overGRPC returns a call for each of the callers, which share the connections.
func (w *workload) overGRPC(tb testing.TB, t *target, callers int) []call {
	tb.Helper()
	want := !w.denied() || t.allowsAll
	senders := make([]sender, min(connections, callers))
	for i := range senders {
		senders[i] = t.connect(tb, t.address, w)
	}
	calls := make([]call, callers)
	for i := range calls {
		send := senders[i%len(senders)]
		calls[i] = func(ctx context.Context, n int) error {
			allowed, err := send(ctx, w.at(i, n))
			if err == nil && allowed != want {
				err = fmt.Errorf("%w of %s: allowed is %t", errUnexpected, t.name, allowed)
			}
			return err
		}
	}
	return calls
}

// overHTTP returns a call for each of the callers, each on a connection of its own.
func (w *workload) overHTTP(tb testing.TB, t *target, method, path string, callers int) []call {
	tb.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true}}
	tb.Cleanup(client.CloseIdleConnections)
	calls := make([]call, callers)
	for i := range calls {
		calls[i] = func(ctx context.Context, n int) error {
			at := w.at(i, n)
			var body io.Reader
			if method == http.MethodPost {
				body = bytes.NewReader(w.bodies[at])
			}
			r, err := http.NewRequestWithContext(ctx, method, "http://"+t.address+path, body)
			if err != nil {
				return err
			}
			r.Host = t.host
			r.Header.Set("X-User", userOf(at))
			response, err := client.Do(r)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			return expectOK(response)
		}
	}
	return calls
}

// expectOK reads the response and returns an error unless its status is 200.
func expectOK(r *http.Response) error {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d", errUnexpected, r.StatusCode)
	}
	return nil
}
