// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestFactsOfLimits(t *testing.T) {
	g := NewWithT(t)
	f := factsOf(&plan.Plan{
		Limits: []plan.Limit{
			{Name: "spend", Algorithm: plan.TokenBucket, Threshold: 1200, WindowMillis: 60_000, Burst: 10, WarnPercent: 80, BlocksMillis: []int64{1000, 90_000}},
			{Name: "calls", Algorithm: plan.Concurrency, Threshold: 3},
		},
		Candidates: []plan.LimitOverride{{Name: "spend", Threshold: 900, WindowMillis: 30_000, Burst: 5}},
	}, false)
	g.Expect(f.Limits).To(Equal([]limitFacts{
		{Name: "spend", Algorithm: "TokenBucket", Window: "1m", Details: "burst 10, near from 80 %, then blocks for 1.0s, 1m 30s", Threshold: 1200},
		{Name: "calls", Algorithm: "Concurrency", Window: "at once", Threshold: 3},
	}))
	g.Expect(f.Rows).To(ContainElement(fact{"Candidate of spend", "threshold 900, window 30s, burst 5"}))
}
