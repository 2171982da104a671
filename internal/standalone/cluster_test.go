// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

// On a Redis Cluster the policies of one request have counters on different nodes; a
// request is charged to all of them or to none.
func TestRedisCluster(t *testing.T) {
	g := NewWithT(t)
	cluster := testenv.StartRedisCluster(t)
	r := start(t, cluster.URL, filesOf(map[string]string{
		"user": `  matches: [{hosts: [shop.example]}]
  key: [{type: Header, header: {name: X-Api-Key}}]
  limits: [{name: l, algorithm: SlidingLog, threshold: 40, window: 1h}]`,
		"tenant": `  matches: [{hosts: [shop.example]}]
  key: [{type: Header, header: {name: X-Tenant}}]
  limits: [{name: l, algorithm: TokenBucket, threshold: 1, burst: 100, window: 1h}]`,
	}))
	request := func(user int) answer {
		return r.post(g, fmt.Sprintf(`{"attributes":{"host":"shop.example","headers":{"x-api-key":"user-%d","x-tenant":"acme"}}}`, user))
	}
	var passed [4]atomic.Int64
	var wait sync.WaitGroup
	for i := range 240 {
		wait.Go(func() {
			if request(i%4).status == 200 {
				passed[i%4].Add(1)
			}
		})
	}
	wait.Wait()
	var all int64
	for user := range passed {
		n := passed[user].Load()
		all += n
		g.Expect(n).To(BeNumerically("<=", 40))
		g.Eventually(used(t.Context(), g, r, "shop/user", fmt.Sprintf("user-%d", user)), "30s").Should(Equal(n), "what passed is what was charged")
	}
	g.Expect(all).To(BeNumerically("<=", 100))
	g.Eventually(used(t.Context(), g, r, "shop/tenant", "acme"), "30s").Should(Equal(all))
	g.Expect(all).To(BeNumerically(">=", 80), "races are lost now and then, and hardly ever two for one unit")
}

// used returns the used units of a key. Refunds after lost races continue in the background.
func used(ctx context.Context, g *WithT, r *running, policy, key string) func() int64 {
	return func() int64 {
		state, err := r.Inspect(ctx, policy, limiter.KeyName{Parts: []string{key}}, plan.Attributes{})
		g.Expect(err).NotTo(HaveOccurred())
		return state.Limits[0].Used
	}
}
