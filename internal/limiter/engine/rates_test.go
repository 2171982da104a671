// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// An override with another rate has a bucket of its own: neither lends to the other
// nor is in its debt, however a caller alternates.
func TestOverridesWithAnotherRate(t *testing.T) {
	for _, algorithm := range []plan.Algorithm{plan.TokenBucket, plan.GCRA} {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			slow := func(p *plan.Plan) {
				p.Limits[0] = plan.Limit{Name: "burst", Algorithm: algorithm, Threshold: 10, Burst: 10, WindowMillis: 3_600_000}
			}
			f := newFixture(makePlan("a/x", slow, overridden(limits(plan.LimitOverride{Name: "burst", Threshold: 3_600_000}))))
			passed := map[string]int{}
			for range 1000 {
				for _, who := range []string{"", "gold"} {
					check := named("a/x")
					check.Attributes.Principal = who
					if f.decide(t, check).Allowed {
						passed[who]++
					}
				}
				f.store.now = f.store.now.Add(20 * time.Millisecond)
			}
			g.Expect(passed[""]).To(Equal(10))
			g.Expect(passed["gold"]).To(Equal(1000))
		})
	}
}
