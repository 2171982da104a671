// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// Hosts and users of the requests.
const (
	limitedUser = "limited"
	freeUser    = "free"
)

// weatherQuota is the quota of the policy for limited requests. It outlasts the weather.
const weatherQuota = 1000

// weatherPolicies apply to a host, by ext_authz, and to a user, by the ratelimit filter.
const weatherPolicies = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: limited, namespace: weather}
spec:
  matches: [{hosts: [limited.example]}, {domain: edge, descriptors: [{key: user_id, value: limited}]}]
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 1000, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: free, namespace: weather}
spec:
  matches: [{hosts: [free.example]}, {domain: edge, descriptors: [{key: user_id, value: free}]}]
  limits: [{name: hourly, algorithm: TokenBucket, threshold: 1000000, window: 1h}]
`

// outcome is what a client saw of one request.
type outcome struct {
	user   string
	sent   time.Time
	took   time.Duration
	status int
	// decided is true if Weir decided by its limits, and degraded if it decided without Redis, within the deadline of
	// Envoy: the response has its header.
	decided, degraded bool
	err               error
}

// traffic is a client of one Envoy that sends requests at a constant rate, whatever becomes of the
// previous ones.
type traffic struct {
	url    string
	client *http.Client
	stop   context.CancelFunc
	sends  sync.WaitGroup

	mu       sync.Mutex
	outcomes []outcome
}

// startTraffic sends a request each 10 ms, every fourth by the limited user, until end.
func startTraffic(t *testing.T, proxy string) *traffic {
	t.Helper()
	a := &traffic{url: "http://" + proxy + "/", client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 200, DisableCompression: true}, Timeout: 20 * time.Second,
	}}
	var ctx context.Context
	ctx, a.stop = context.WithCancel(t.Context())
	a.sends.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			user := freeUser
			if n%4 == 0 {
				user = limitedUser
			}
			a.sends.Go(func() { a.send(context.WithoutCancel(ctx), user) })
		}
	})
	t.Cleanup(func() { a.end(); a.client.CloseIdleConnections() })
	return a
}

// end stops the requests and waits for the last answers.
func (a *traffic) end() {
	a.stop()
	a.sends.Wait()
}

// send sends one request and records its outcome.
func (a *traffic) send(ctx context.Context, user string) outcome {
	o := outcome{user: user, sent: time.Now()}
	o.err = a.ask(ctx, &o)
	o.took = time.Since(o.sent)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outcomes = append(a.outcomes, o)
	return o
}

// ask sends the request of the outcome, and reads the answer into it.
func (a *traffic) ask(ctx context.Context, o *outcome) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
	if err != nil {
		return err
	}
	r.Host = o.user + ".example"
	r.Header.Set("X-User-Id", o.user)
	response, err := a.client.Do(r)
	if err != nil {
		return err
	}
	o.status = response.StatusCode
	o.decided, o.degraded = response.Header.Get("RateLimit") != "", response.Header.Get("Weir-Degraded") != ""
	return response.Body.Close()
}

// exhaust uses up the quota of the limited user.
func (a *traffic) exhaust(ctx context.Context) error {
	for range 2 * weatherQuota {
		if o := a.send(ctx, limitedUser); o.err != nil || o.status == http.StatusTooManyRequests {
			return o.err
		}
	}
	return fmt.Errorf("%d further requests did not exhaust the quota", 2*weatherQuota)
}

// all returns the outcomes so far.
func (a *traffic) all() []outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.outcomes)
}

// filter returns the outcomes for which keep is true.
func filter(outcomes []outcome, keep func(*outcome) bool) (kept []outcome) {
	for i := range outcomes {
		if keep(&outcomes[i]) {
			kept = append(kept, outcomes[i])
		}
	}
	return kept
}

// slowest returns the longest time that a request took.
func slowest(outcomes []outcome) (most time.Duration) {
	for i := range outcomes {
		most = max(most, outcomes[i].took)
	}
	return most
}
