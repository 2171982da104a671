// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

const everyAlgorithm = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: attempts, namespace: shop}
spec:
  matches: [{methods: [POST], paths: ["/login"]}]
  key: [{type: RemoteAddress, remoteAddress: {}}]
  counting: Attempts
  denyWhen: ThresholdReached
  limits:
  - {name: log, algorithm: SlidingLog, threshold: 5, window: 20s, blockDuration: 30s}
  - {name: sliding, algorithm: SlidingWindow, threshold: 40, window: 5m}
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: client, namespace: shop}
spec:
  key: [{type: RemoteAddress, remoteAddress: {}}]
  limits:
  - {name: bucket, algorithm: TokenBucket, threshold: 20, window: 1m, burst: 6}
  - {name: pace, algorithm: GCRA, threshold: 5, window: 1s, burst: 3}
  overrides:
  - {name: more, when: 'remoteAddress.endsWith("7")', limits: [{name: bucket, threshold: 90}]}
  - {name: denied, cidrs: ["10.0.0.9/32"], action: Deny}
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: everybody, namespace: shop}
spec:
  limits:
  - {name: shed, algorithm: Suppressed, threshold: 600, window: 1m}
  - {name: fixed, algorithm: FixedWindow, threshold: 700, window: 1m}
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: shadow, namespace: shop}
spec:
  mode: Shadow
  key: [{type: Header, header: {name: User-Agent}}]
  limits: [{name: fixed, algorithm: FixedWindow, threshold: 100, window: 30s, blockDuration: 1m}]
`

// mixedLog returns n lines of 25 clients, with bursts and pauses, a few seconds out of order.
func mixedLog(n int) []byte {
	random := rand.New(rand.NewPCG(7, 8))
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	for range n {
		if random.IntN(20) == 0 {
			at = at.Add(time.Duration(random.IntN(3)) * time.Second)
		}
		if random.IntN(400) == 0 {
			at = at.Add(time.Duration(random.IntN(90)) * time.Second)
		}
		request := "GET /items"
		if random.IntN(4) == 0 {
			request = "POST /login"
		}
		fmt.Fprintf(&log, "10.0.0.%d - - [%s] \"%s HTTP/1.1\" 200 1 \"-\" \"agent %d\"\n", random.IntN(25),
			at.Add(-time.Duration(random.IntN(10))*time.Second).Format(clfTime), request, random.IntN(3))
	}
	return log.Bytes()
}

// A real Redis, whose clock follows the log, decides each of 10,000 lines as the store in this
// process does: the same verdict, limits, remaining units and waits.
func TestRedisDecidesTheSame(t *testing.T) {
	g := NewWithT(t)
	const lines = 10_000
	policies, err := testpolicy.Read(t.Context(), []byte(everyAlgorithm))
	g.Expect(err).NotTo(HaveOccurred())
	plans, err := Compile(policies)
	g.Expect(err).NotTo(HaveOccurred())
	log := mixedLog(lines)
	decideAll := func(storeOf func(r *replay) engine.Store) (all []limiter.Decision, report *Report) {
		r := newReplay(plans)
		r.recorder.Store = storeOf(r)
		r.decided = func(d *limiter.Decision) { all = append(all, *d) }
		report, err := r.run(t.Context(), Options{Source: Source{
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(log)), nil }, Format: FormatCombined,
		}})
		g.Expect(err).NotTo(HaveOccurred())
		return all, report
	}
	server, clock := testenv.StartRedisWithClock(t)
	client, err := redisclient.New(server.URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = client.Close() }()
	want, wantReport := decideAll(func(r *replay) engine.Store {
		backend := redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Minute})
		return &clocked{Store: backend, before: func() { clock.Set(r.now) }}
	})
	got, report := decideAll(func(r *replay) engine.Store {
		return memory.NewStore(memory.Options{Keys: lines, Now: func() time.Time { return r.now }})
	})
	g.Expect(want).To(HaveLen(lines))
	g.Expect(got).To(HaveLen(lines))
	reasons := map[limiter.Reason]int{}
	for i := range want {
		g.Expect(got[i]).To(Equal(want[i]), "line %d", i)
		reasons[got[i].Reason]++
	}
	g.Expect(report).To(Equal(wantReport))
	t.Log(reasons)
	for _, reason := range []limiter.Reason{
		limiter.ReasonAllowed, limiter.ReasonLimitExceeded, limiter.ReasonBlocked, limiter.ReasonSuppressed, limiter.ReasonDeniedByOverride,
	} {
		g.Expect(reasons[reason]).To(BeNumerically(">", 100), string(reason))
	}
}

// clocked is a store whose server gets its time before each call.
type clocked struct {
	engine.Store
	before func()
}

// Evaluate implements engine.Store.
func (c *clocked) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	c.before()
	return c.Store.Evaluate(ctx, call)
}
