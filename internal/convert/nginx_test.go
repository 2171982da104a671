// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
)

// zone is limit_req of nginx with nodelay, for one client: as documented, a leaky bucket that
// counts thousandths of requests by milliseconds.
type zone struct {
	rate, burst, excess int64
	last                int64 // ms, 0 before the first request
}

func (z *zone) allows(now int64) bool {
	excess := int64(0)
	if z.last != 0 {
		excess = max(0, z.excess-z.rate*(now-z.last)+1000)
	}
	if excess > z.burst*1000 {
		return false
	}
	z.excess, z.last = excess, now
	return true
}

// The converted policy decides like the zone of one pod, and of several pods that get the
// requests in turn.
func TestIngressNginxDecidesAlike(t *testing.T) {
	const manifest = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: shop, annotations: {
		nginx.ingress.kubernetes.io/limit-rps: "5", nginx.ingress.kubernetes.io/limit-burst-multiplier: "2"}},
		spec: {rules: [{host: shop.example, http: {paths: [{path: /, pathType: Prefix}]}}]}}`
	for _, pods := range []int{1, 4} {
		t.Run(strconv.Itoa(pods), func(t *testing.T) {
			g := NewWithT(t)
			policies, notes, err := convert.IngressNginx(t.Context(), fileOf([]byte(manifest)), convert.IngressNginxOptions{Replicas: int64(pods)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(notes).To(HaveLen(2))
			policies[0].Namespace = "shop"
			now := time.UnixMilli(1_900_000_000_000)
			e := newEngine(t, policies, memory.NewStore(memory.Options{Keys: 10, Now: func() time.Time { return now }}))
			random := rand.New(rand.NewPCG(1, 2))
			zones, denied := make([]zone, pods), 0
			for i := range zones {
				zones[i] = zone{rate: 5, burst: 10}
			}
			for range 4000 {
				now = now.Add(time.Duration(random.IntN(200*2)) * time.Millisecond)
				if random.IntN(40) == 0 {
					now = now.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
				}
				for range random.IntN(6) {
					admitted := 0
					for i := range zones { // one request for each pod
						if zones[i].allows(now.UnixMilli()) {
							admitted++
						}
					}
					got := 0
					for range zones {
						decision, err := e.Decide(t.Context(), &limiter.Check{Cost: 1, Attributes: plan.Attributes{
							Host: "shop.example", Path: "/x", RemoteAddress: netip.MustParseAddr("192.0.2.1"),
						}})
						g.Expect(err).NotTo(HaveOccurred())
						if decision.Allowed {
							got++
						}
					}
					g.Expect(got).To(BeNumerically("~", admitted, pods-1))
					denied += pods - admitted
				}
			}
			g.Expect(denied).To(BeNumerically(">", 500))
		})
	}
}
