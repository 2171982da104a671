// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// An override with another rate has its own bucket, so one principal cannot use up or
// refill the bucket of another.
func TestOverrideWithAnotherRateHasItsOwnBucket(t *testing.T) {
	for _, algorithm := range []plan.Algorithm{plan.TokenBucket, plan.GCRA} {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			slow := func(p *plan.Plan) {
				p.Limits[0] = plan.Limit{Name: "burst", Algorithm: algorithm, Threshold: 10, Burst: 10, WindowMillis: 3_600_000}
			}
			f := newFixture(makePlan("a/x", slow, overridden(limits(plan.LimitOverride{Name: "burst", Threshold: 3_600_000}))))
			admitted := map[string]int{}
			for range 1000 {
				for _, principal := range []string{"", "gold"} {
					check := named("a/x")
					check.Attributes.Principal = principal
					if f.decide(t, check).Allowed {
						admitted[principal]++
					}
				}
				f.store.now = f.store.now.Add(20 * time.Millisecond)
			}
			g.Expect(admitted[""]).To(Equal(10))
			g.Expect(admitted["gold"]).To(Equal(1000))
		})
	}
}
