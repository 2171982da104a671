// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
)

// The behaviors required by the five documents that this product started from, tested
// as a user would: policies in YAML, checks over HTTP, a real Redis. The names of the
// subtests quote the documents.

// Document 000, the abuse limiter. Its decision log is tested by TestDebugLogShowsEveryDecision
// of the engine.
func TestSeedAbuseLimiter(t *testing.T) {
	const verification = `  limits:
  - {name: temp, algorithm: SlidingLog, threshold: 3, window: 1m, blockDuration: 5m}
  - {name: long, algorithm: SlidingLog, threshold: 5, window: 24h, blockDuration: 24h}
  counting: Attempts
  denyWhen: ThresholdReached
  denial: {code: TooManyAttempts, message: "Too many attempts for verification code."}`
	s := plant(t, map[string]string{
		"verify": verification, "canary": "  mode: Shadow\n" + verification,
		"generic": "  limits: [{name: l, algorithm: SlidingLog, threshold: 1, window: 10s}]",
	})
	ask := func(key string) answer { return s.ask(s.g, "verify", key) }

	t.Run("multiple attempts within the same second are counted, the Nth triggers the block", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect([]int{ask("a").status, ask("a").status}).To(Equal([]int{200, 200}))
		third := ask("a")
		g.Expect(third.status).To(Equal(429))
		g.Expect([]any{third.Reason, third.Limit}).To(Equal([]any{"LimitExceeded", "temp"}))
		g.Expect([]int64{third.Limits[0].Used, third.Limits[1].Used}).To(Equal([]int64{3, 3}), "short and long count")
	})
	t.Run("a denial is an error response with the time to retry, in header and JSON", func(t *testing.T) {
		g := NewWithT(t)
		blocked := ask("a")
		g.Expect(blocked.Reason).To(Equal("Blocked"))
		g.Expect(blocked.Code).To(Equal("TooManyAttempts"))
		g.Expect(blocked.header.Get("Retry-After")).To(Equal("300"))
		g.Expect([]int64{blocked.RetryAfter, blocked.Context.RetryAfter}).To(Equal([]int64{300, 300}))
		g.Expect(blocked.Detail).To(Equal("Too many attempts for verification code. Try again in 300 seconds."))
	})
	t.Run("a blocked caller stays blocked when the short window has slid, and is not counted", func(t *testing.T) {
		g := NewWithT(t)
		s.clock.Advance(2 * time.Minute)
		blocked := ask("a")
		g.Expect([]any{blocked.status, blocked.Reason}).To(Equal([]any{429, "Blocked"}))
		g.Expect([]int64{blocked.Limits[0].Used, blocked.Limits[1].Used}).To(Equal([]int64{0, 3}))
		g.Expect(blocked.RetryAfter).To(BeNumerically("<=", 180), "nothing restarts the block")
	})
	t.Run("TTL expiry unblocks as expected", func(t *testing.T) {
		g := NewWithT(t)
		s.clock.Advance(3 * time.Minute)
		g.Expect(ask("a").status).To(Equal(200))
	})
	t.Run("the long window blocks for long", func(t *testing.T) {
		g := NewWithT(t)
		fifth := ask("a")
		g.Expect([]any{fifth.status, fifth.Limit}).To(Equal([]any{429, "long"}))
		g.Expect(fifth.RetryAfter).To(BeNumerically(">", 86_000))
	})
	t.Run("concurrent calls block once, and no more than the quota passes before", func(t *testing.T) {
		g := NewWithT(t)
		passed := s.inParallel(100, func() bool { return ask("burst").status == 200 })
		g.Expect(passed).To(Equal(2))
		g.Expect(s.metrics(g)).To(ContainSubstring(`weir_blocks_total{limit="temp",namespace="shop",policy="verify"} 2`), "one for a, one for burst")
	})
	t.Run("generic flows say RateLimited", func(t *testing.T) {
		g := NewWithT(t)
		s.ask(g, "generic", "a")
		g.Expect(s.ask(g, "generic", "a").Code).To(Equal("RateLimited"))
	})
	t.Run("a canary counts and denies no request", func(t *testing.T) {
		g := NewWithT(t)
		for range 6 {
			g.Expect(s.ask(g, "canary", "a").status).To(Equal(200))
		}
		g.Expect(s.metrics(g)).To(ContainSubstring(`policy="canary",verdict="shadow_denied"} 4`))
	})
	t.Run("attempts keys live as long as the longest window", func(t *testing.T) {
		g := NewWithT(t)
		s.clock.Advance(24*time.Hour + 2*time.Millisecond)
		g.Expect(s.counters(t)).To(BeEmpty())
	})
	t.Run("raw strings of users cannot name other keys", func(t *testing.T) {
		g := NewWithT(t)
		ask("a}:shop/generic:sl")
		g.Expect(s.counters(t)).To(Equal([]string{"weir:1:c:{a%7D%3Ashop/generic%3Asl}:shop/verify:sl"}))
	})
}

// Document 001, the atomic limiter.
func TestSeedAtomicLimiter(t *testing.T) {
	specs := map[string]string{
		"requests": "  limits: [{name: l, algorithm: FixedWindow, threshold: 100, window: 60s}]",
		"strict":   "  failureMode: Closed\n  limits: [{name: l, algorithm: FixedWindow, threshold: 100, window: 60s}]",
	}
	s := plant(t, specs)

	t.Run("200 parallel requests at 100 a minute: 100 are rejected, over one to four instances", func(t *testing.T) {
		g := NewWithT(t)
		instances := []*running{s.running}
		for n := 1; n <= 4; n++ {
			var turn atomic.Int64
			passed := s.inParallel(200, func() bool {
				one := instances[int(turn.Add(1))%len(instances)]
				return one.ask(g, "requests", fmt.Sprint("caller", n)).status == 200
			})
			g.Expect(passed).To(Equal(100))
			instances = append(instances, start(t, s.server.URL, filesOf(specs)))
		}
	})
	t.Run("the TTL is set once, on the first request, and every answer has the count and what is left", func(t *testing.T) {
		g := NewWithT(t)
		first := s.ask(g, "requests", "ttl").Limits[0]
		g.Expect([]int64{first.Used, first.ResetAfterMs}).To(Equal([]int64{1, 60_000}))
		s.clock.Advance(20 * time.Second)
		second := s.ask(g, "requests", "ttl").Limits[0]
		g.Expect([]int64{second.Used, second.ResetAfterMs}).To(Equal([]int64{2, 40_000}))
	})
	t.Run("the window rolls over", func(t *testing.T) {
		g := NewWithT(t)
		s.clock.Advance(40 * time.Second)
		again := s.ask(g, "requests", "ttl").Limits[0]
		g.Expect([]int64{again.Used, again.ResetAfterMs}).To(Equal([]int64{1, 60_000}))
	})
	t.Run("missing Redis allows by default, with metrics and logs", func(t *testing.T) {
		g := NewWithT(t)
		s.server.Stop()
		open, closed := s.ask(g, "requests", "a"), s.ask(g, "strict", "a")
		g.Expect([]any{open.status, open.Reason}).To(Equal([]any{200, "StoreUnavailable"}))
		g.Expect(closed.status).To(Equal(503))
		g.Expect(s.metrics(g)).To(MatchRegexp(`weir_degraded_decisions_total\{cause="\w+",mode="Open",namespace="shop",policy="requests"\} 1`))
		g.Expect(s.log.String()).To(ContainSubstring("Decided without Redis"))
	})
}

// Document 002, the sliding window with buckets.
func TestSeedBucketedWindow(t *testing.T) {
	s := plant(t, map[string]string{
		"absolute":   "  limits: [{name: l, algorithm: SlidingWindow, threshold: 5, window: 2s, bucket: 100ms}]",
		"suppressed": "  limits: [{name: l, algorithm: Suppressed, threshold: 2, window: 10s, hardLimitPercent: 200}]",
	})
	t.Run("is_allowed records nothing, and what is rejected is not applied", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(s.ask(g, "absolute", "a", `"cost":5`, `"peek":true`).status).To(Equal(200))
		g.Expect(s.counters(t)).To(BeEmpty())
		s.ask(g, "absolute", "a", `"cost":4`)
		rejected := s.ask(g, "absolute", "a", `"cost":2`)
		g.Expect([]any{rejected.status, rejected.Limits[0].Used}).To(Equal([]any{429, int64(4)}))
		g.Expect(s.ask(g, "absolute", "a").Limits[0].Used).To(Equal(int64(5)))
	})
	t.Run("a denial has the time to retry and the units free then", func(t *testing.T) {
		g := NewWithT(t)
		rejected := s.ask(g, "absolute", "a").Limits[0]
		g.Expect(rejected.RetryAfterMs).To(Equal(int64(2000)))
		g.Expect(rejected.RemainingAfterWaiting).To(Equal(int64(5)))
	})
	t.Run("increments close together share a bucket", func(t *testing.T) {
		g := NewWithT(t)
		for range 4 {
			s.ask(g, "absolute", "coalesced")
		}
		length, err := s.client.LLen(t.Context(), "weir:1:c:{coalesced}:shop/absolute:l:sw:2s:100ms").Result()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(length).To(Equal(int64(3)))
	})
	t.Run("rates need not be whole numbers: two and a half a second", func(t *testing.T) {
		g := NewWithT(t)
		passed := 0
		for range 200 { // 20 a second for ten seconds
			s.clock.Advance(50 * time.Millisecond)
			if s.ask(g, "absolute", "rate").status == 200 {
				passed++
			}
		}
		g.Expect(passed).To(BeNumerically("~", 25, 2))
	})
	t.Run("keys: empty is rejected, a colon and 300 bytes are not", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(s.ask(g, "absolute", "").status).To(Equal(400))
		g.Expect(s.ask(g, "absolute", "a:b").status).To(Equal(200))
		g.Expect(s.ask(g, "absolute", strings.Repeat("x", 300)).status).To(Equal(200))
	})
	t.Run("suppression sheds a share and reports it", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(s.ask(g, "suppressed", "a", `"cost":2`).Limits[0].SuppressionFactor).To(BeZero())
		third := s.ask(g, "suppressed", "a")
		g.Expect(third.Limits[0].SuppressionFactor).To(BeNumerically("~", 1.0/3, 0.01))
		if !third.Allowed {
			g.Expect(third.Reason).To(Equal("Suppressed"))
		}
	})
	t.Run("keys that become inactive leave nothing behind", func(t *testing.T) {
		g := NewWithT(t)
		s.clock.Advance(11 * time.Second)
		g.Expect(s.counters(t)).To(BeEmpty())
	})
}

// Document 003, token buckets and chains of plans.
func TestSeedTokenBuckets(t *testing.T) {
	s := plant(t, map[string]string{
		"gold":  "  limits: [{name: l, algorithm: TokenBucket, threshold: 1, window: 1s, burst: 10}]",
		"daily": "  limits: [{name: l, algorithm: FixedWindow, threshold: 12, window: 24h}]",
		"header": `  key: [{type: Header, header: {name: X-API-KEY}}]
  limits: [{name: l, algorithm: TokenBucket, threshold: 1, window: 1h, burst: 1}]`,
		"principal": `  key: [{type: Principal, principal: {}}]
  limits: [{name: l, algorithm: TokenBucket, threshold: 1, window: 1h, burst: 1}]`,
	})
	t.Run("tokens are taken by weight and come back by server time, up to the capacity", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(s.ask(g, "gold", "a", `"cost":8`).Limits[0].Remaining).To(Equal(int64(2)))
		g.Expect(s.ask(g, "gold", "a", `"cost":4`).Limits[0].RetryAfterMs).To(Equal(int64(2000)))
		s.clock.Advance(2 * time.Second)
		g.Expect(s.ask(g, "gold", "a", `"cost":4`).status).To(Equal(200))
		s.clock.Advance(time.Hour)
		g.Expect(s.ask(g, "gold", "a", `"peek":true`).Limits[0].Remaining).To(Equal(int64(10)))
	})
	t.Run("the TTL is the lifetime of the bucket", func(t *testing.T) {
		g := NewWithT(t)
		s.ask(g, "gold", "ttl", `"cost":7`)
		ttl, err := s.client.PTTL(t.Context(), "weir:1:c:{ttl}:shop/gold:l:tb:1s").Result()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ttl).To(BeNumerically("~", 7*time.Second, 2*time.Millisecond))
	})
	t.Run("chained plans are one atomic step: a denial spends from none", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(s.ask(g, "gold daily", "chain", `"cost":9`).status).To(Equal(200))
		s.clock.Advance(time.Minute)
		denied := s.ask(g, "gold daily", "chain", `"cost":5`)
		g.Expect([]any{denied.status, denied.Limit}).To(Equal([]any{429, "l"}))
		g.Expect([]int64{denied.Limits[0].Used, denied.Limits[1].Used}).To(Equal([]int64{0, 9}))
		g.Expect(s.ask(g, "gold daily", "chain", `"cost":3`).status).To(Equal(200))
	})
	t.Run("keys are resolved from a header or the principal", func(t *testing.T) {
		g := NewWithT(t)
		for policy, attribute := range map[string]string{"header": `"headers":{"X-Api-Key":%q}`, "principal": `"principal":%q`} {
			ask := func(who string) int {
				return s.post(g, `{"policies":["shop/`+policy+`"],"attributes":{`+fmt.Sprintf(attribute, who)+`}}`).status
			}
			g.Expect([]int{ask("one"), ask("two"), ask("one")}).To(Equal([]int{200, 200, 429}), policy)
		}
	})
	t.Run("a script that Redis has lost is loaded again in the same call", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(s.client.ScriptFlush(t.Context()).Err()).To(Succeed())
		healed := s.ask(g, "gold", "noscript")
		g.Expect([]any{healed.status, healed.Reason}).To(Equal([]any{200, "Allowed"}))
	})
	t.Run("without Redis the limiter fails open", func(t *testing.T) {
		g := NewWithT(t)
		s.server.Stop()
		g.Expect(s.ask(g, "gold daily", "a").status).To(Equal(200))
	})
}

// Document 004, one truth for all nodes.
func TestSeedOneTruth(t *testing.T) {
	specs := map[string]string{
		"credential-exchange": "  limits: [{name: l, algorithm: SlidingLog, threshold: 10, window: 60s}]",
		"ast-analysis":        "  limits: [{name: l, algorithm: SlidingLog, threshold: 50, window: 60s}]",
	}
	s := plant(t, specs)
	nodes := []*running{s.running, start(t, s.server.URL, filesOf(specs)), start(t, s.server.URL, filesOf(specs))}
	exchange := func(node *running, customer string) answer { return node.ask(s.g, "credential-exchange", customer) }

	t.Run("limits are shared across nodes at once: 100 requests to three nodes, ten pass", func(t *testing.T) {
		var turn atomic.Int64
		passed := s.inParallel(100, func() bool { return exchange(nodes[turn.Add(1)%3], "attacker").status == 200 })
		NewWithT(t).Expect(passed).To(Equal(10), "the configured ten and not a hundred")
	})
	t.Run("counters are separate per customer and per action", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(exchange(nodes[0], "attacker").status).To(Equal(429))
		g.Expect(exchange(nodes[0], "customer").status).To(Equal(200))
		g.Expect(nodes[0].ask(g, "ast-analysis", "attacker").status).To(Equal(200))
	})
	t.Run("a limited request gets 429 with Retry-After, and both outcomes are counted", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(exchange(nodes[1], "newcomer").status).To(Equal(200))
		limited := exchange(nodes[1], "attacker")
		g.Expect(limited.header.Get("Retry-After")).To(Equal("60"))
		g.Expect(nodes[1].metrics(g)).To(And(
			MatchRegexp(`weir_decisions_total\{limit="",namespace="shop",policy="credential-exchange",verdict="allowed"\} \d`),
			MatchRegexp(`weir_decisions_total\{limit="l",namespace="shop",policy="credential-exchange",verdict="denied"\} \d`)))
	})
	t.Run("a node that joins has the existing data, and the loss of one loses none", func(t *testing.T) {
		g := NewWithT(t)
		joined := start(t, s.server.URL, filesOf(specs))
		g.Expect(exchange(joined, "attacker").status).To(Equal(429))
		nodes = append(nodes[1:], joined)
		g.Expect(exchange(nodes[0], "attacker").status).To(Equal(429))
	})
	t.Run("configuration is really used, and at once", func(t *testing.T) {
		g := NewWithT(t)
		specs["credential-exchange"] = "  limits: [{name: l, algorithm: SlidingLog, threshold: 12, window: 60s}]"
		s.write(t, "credential-exchange.yaml", filesOf(specs)["credential-exchange.yaml"])
		g.Eventually(func() int { return exchange(s.running, "attacker").status }).Should(Equal(200))
		g.Expect(exchange(s.running, "attacker").status).To(Equal(200))
		g.Expect(exchange(s.running, "attacker").status).To(Equal(429))
	})
	t.Run("a reset lets the customer start afresh, on every node", func(t *testing.T) {
		g := NewWithT(t)
		found, err := nodes[0].Reset(t.Context(), "shop/credential-exchange", limiter.KeyName{Parts: []string{"attacker"}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found).To(BeTrue())
		// A node that has cached the denial drops it when the message of the reset arrives.
		g.Eventually(func() int64 { return exchange(nodes[1], "attacker").Limits[0].Used }, "30s", "1ms").Should(Equal(int64(1)))
	})
	t.Run("the window slides with time, and old entries are removed", func(t *testing.T) {
		g := NewWithT(t)
		s.clock.Advance(61 * time.Second)
		g.Expect(s.counters(t)).To(BeEmpty())
		g.Expect(exchange(nodes[0], "attacker").status).To(Equal(200))
	})
}
