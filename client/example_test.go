// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-dev/weir/client"
)

// fakeWeir stands for Weir in the examples: it denies the third check.
func fakeWeir() *httptest.Server {
	checks := 0
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		checks++
		if checks < 3 {
			_, _ = fmt.Fprint(w, `{"allowed":true,"reason":"Allowed","limits":[],"revision":1}`)
			return
		}
		w.Header().Set("Retry-After", "8")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = fmt.Fprint(w, `{"allowed":false,"reason":"LimitExceeded","status":429,"code":"RateLimited","detail":"Slow down.","retryAfter":8}`)
	}))
}

func ExampleClient_Check() {
	weir := fakeWeir() // such as http://weir.weir-system.svc:8080
	defer weir.Close()
	c, err := client.New(client.Options{URL: weir.URL, FailMode: client.Open})
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, err := c.Check(context.Background(), client.Check{Policies: []string{"shop/burst"}, Key: []string{"user-42"}})
		if err != nil {
			log.Print(err) // FailMode has decided
		}
		if d.Allowed {
			fmt.Println("pass")
		} else {
			fmt.Println("deny with status", d.Status, "and wait", d.RetryAfter)
		}
	}
	// Output:
	// pass
	// pass
	// deny with status 429 and wait 8s
}

func ExampleClient_Reserve() {
	weir := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // stands for Weir
		if r.URL.Path == "/v1/reserve" {
			_, _ = fmt.Fprint(w, `{"allowed":true,"reason":"Allowed","limits":[],"revision":1,"reservation":"eyJ2IjoxLCJpZCI6ImEifQ"}`)
			return
		}
		_, _ = fmt.Fprint(w, `{"committed":true,"policies":[{"policy":"ai/tokens","committed":true,"cost":2718,"estimate":4000}],"revision":1}`)
	}))
	defer weir.Close()
	c, err := client.New(client.Options{URL: weir.URL, FailMode: client.Closed})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	reservation, err := c.Reserve(ctx, client.Reserve{
		Check: client.Check{Policies: []string{"ai/tokens"}, Key: []string{"user-42"}, Cost: 4000}, TTL: 2 * time.Minute,
	})
	if err != nil {
		log.Print(err) // FailMode has decided
	}
	if !reservation.Decision.Allowed {
		return
	}
	tokens := int64(2718) // of the response
	committed, err := reservation.Commit(context.WithoutCancel(ctx), tokens)
	if err != nil {
		log.Print(err) // Weir spends the estimate when the reservation ends
	}
	for _, p := range committed.Policies {
		fmt.Println(p.Policy, "spent", p.Cost, "of", p.Estimate)
	}
	// Output: ai/tokens spent 2718 of 4000
}

func ExampleClient_Middleware() {
	weir := fakeWeir()
	defer weir.Close()
	c, err := client.New(client.Options{URL: weir.URL, FailMode: client.Closed})
	if err != nil {
		panic(err)
	}
	limit := c.Middleware(client.Middleware{
		Check: func(r *http.Request) (client.Check, bool) {
			attributes := client.Describe(r)
			attributes.Principal, _, _ = r.BasicAuth() // after it was verified
			return client.Check{Attributes: attributes}, r.URL.Path != "/healthz"
		},
		OnError: func(_ *http.Request, err error) { log.Print(err) },
	})
	shop := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "welcome") }))
	for range 3 {
		w := httptest.NewRecorder()
		shop.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, "Retry-After:", w.Header()["Retry-After"])
	}
	// Output:
	// 200 Retry-After: []
	// 200 Retry-After: []
	// 429 Retry-After: [8]
}
