// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/client"
	"github.com/weir-dev/weir/client/weirgrpc"
)

// usage returns the used and the held units of a key.
func usage(t *testing.T, c *client.Client, policy, key string) func() []int64 {
	t.Helper()
	return func() []int64 {
		d, err := c.Check(t.Context(), client.Check{Policies: []string{policy}, Key: []string{key}, Peek: true})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return []int64{d.Limits[0].Used, d.Limits[0].Held}
	}
}

// newLogins starts a service whose logins end as their password demands.
func newLogins(t *testing.T, c *client.Client) *httptest.Server {
	t.Helper()
	shop := httptest.NewUnstartedServer(c.Middleware(client.Middleware{CountOutcome: true})(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("X-Password") {
			case "correct":
			case "panic":
				panic("the login fails")
			default:
				w.WriteHeader(http.StatusUnauthorized)
			}
		})))
	shop.Config.ErrorLog = log.New(io.Discard, "", 0)
	shop.Start()
	t.Cleanup(shop.Close)
	return shop
}

func TestMiddlewareCountsFailedRequests(t *testing.T) {
	g, c := NewWithT(t), startWeir(t).client(t, client.Closed)
	shop := newLogins(t, c)
	for i, login := range []struct {
		password string
		status   int // 0 if the server panics
		used     int64
	}{
		{"correct", 200, 0},
		{"correct", 200, 0},
		{"correct", 200, 0},
		{"correct", 200, 0},
		{"wrong", 401, 1},
		{"panic", 0, 2},
		{"correct", 200, 2},
		{"wrong", 401, 3},
		{"correct", 429, 3},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, shop.URL+"/login", nil)
		g.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("X-Account", "alice")
		request.Header.Set("X-Password", login.password)
		answer, err := http.DefaultClient.Do(request)
		if login.status == 0 {
			g.Expect(err).To(MatchError(io.EOF))
		} else {
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Body.Close()).To(Succeed())
			g.Expect(answer.StatusCode).To(Equal(login.status), "login %d", i)
		}
		g.Eventually(usage(t, c, "shop/failures", "alice"), "30s").Should(Equal([]int64{login.used, 0}), "login %d", i)
	}
}

func TestInterceptorCountsFailedCalls(t *testing.T) {
	g, s := NewWithT(t), startWeir(t)
	shop := guardedIn(t, s, weirgrpc.Options{Domain: "failures", FailMode: client.Closed}, weirgrpc.Interceptor{CountOutcome: true})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "user", "alice")
	for i, call := range []struct {
		service string
		code    codes.Code
		used    int64
	}{
		{"", codes.OK, 0},
		{"", codes.OK, 0},
		{"", codes.OK, 0},
		{"none", codes.NotFound, 1},
		{"", codes.OK, 1},
		{"none", codes.NotFound, 2},
		{"", codes.ResourceExhausted, 2},
	} {
		_, err := shop.Check(ctx, &healthpb.HealthCheckRequest{Service: call.service})
		g.Expect(status.Code(err)).To(Equal(call.code), "call %d", i)
		g.Eventually(usage(t, s.client(t, client.Closed), "shop/failed-calls", "alice"), "30s").Should(Equal([]int64{call.used, 0}), "call %d", i)
	}
}
