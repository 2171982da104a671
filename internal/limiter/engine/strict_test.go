// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// byHeader returns an override whose condition reads the header h.
func byHeader(name, value string, action plan.Action, changed ...plan.LimitOverride) plan.Override {
	return plan.Override{Name: name, When: fmt.Sprintf(`request.headers["h"] == %q`, value), Action: action, Limits: changed}
}

func TestOverridesThatCannotBeJudged(t *testing.T) {
	burst := func(threshold int64) plan.LimitOverride {
		return plan.LimitOverride{Name: "burst", Threshold: threshold}
	}
	for name, tc := range map[string]struct {
		overrides []plan.Override
		reason    limiter.Reason
		threshold int64
	}{
		"Deny selects": {overrides: []plan.Override{byHeader("bots", "evilbot", plan.ActionDeny)}, reason: limiter.ReasonDeniedByOverride},
		"Allow does not select": {
			overrides: []plan.Override{byHeader("office", "office", plan.ActionAllow)}, reason: limiter.ReasonAllowed, threshold: 3,
		},
		"Limit tightens": {
			overrides: []plan.Override{byHeader("trial", "trial", plan.ActionLimit, burst(2))}, reason: limiter.ReasonAllowed, threshold: 2,
		},
		"Limit does not loosen": {
			overrides: []plan.Override{byHeader("gold", "gold", plan.ActionLimit, burst(50))}, reason: limiter.ReasonAllowed, threshold: 3,
		},
		"the smallest numbers of all": {
			overrides: []plan.Override{
				byHeader("gold", "gold", plan.ActionLimit, burst(50)), byHeader("trial", "trial", plan.ActionLimit, burst(2)),
				byHeader("free", "free", plan.ActionLimit, burst(1)),
			}, reason: limiter.ReasonAllowed, threshold: 1,
		},
		"and of an override that selects": {
			overrides: []plan.Override{
				byHeader("gold", "gold", plan.ActionLimit, burst(50)), {Name: "all", When: "true", Action: plan.ActionLimit, Limits: []plan.LimitOverride{burst(20)}},
			}, reason: limiter.ReasonAllowed, threshold: 20,
		},
		"an exemption after it does not count": {
			overrides: []plan.Override{
				byHeader("gold", "gold", plan.ActionLimit, burst(50)), {Name: "all", When: "true", Action: plan.ActionAllow},
			}, reason: limiter.ReasonAllowed, threshold: 50,
		},
		"an exemption before it counts": {
			overrides: []plan.Override{
				{Name: "all", When: "true", Action: plan.ActionAllow}, byHeader("bots", "evilbot", plan.ActionDeny),
			}, reason: limiter.ReasonExempt,
		},
		"a denial after it counts": {
			overrides: []plan.Override{
				byHeader("gold", "gold", plan.ActionLimit, burst(50)), {Name: "all", When: "true", Action: plan.ActionDeny},
			}, reason: limiter.ReasonDeniedByOverride,
		},
		"other selectors that do not hold": {
			overrides: []plan.Override{{Name: "bots", Keys: []string{"bob"}, When: `request.headers["h"] == "x"`, Action: plan.ActionDeny}},
			reason:    limiter.ReasonAllowed, threshold: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := makePlan("a/x", keyed(apiKey), overridden(tc.overrides...))
			g.Expect(p.Validate()).To(Succeed())
			f := newFixture(p)
			check := &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: plan.Attributes{
				Headers: map[string]string{"x-api-key": "alice", "h": strings.Repeat("x", 9000)},
			}}
			check.Peek = true
			for range 2 { // the second one finds the limits that the first one prepared
				d := f.decide(t, check)
				g.Expect(d.Reason).To(Equal(tc.reason))
				if tc.threshold > 0 {
					g.Expect(d.Limits).To(HaveExactElements(HaveField("Threshold", tc.threshold)))
				}
			}
			state, err := f.Inspect(t.Context(), "a/x", limiter.KeyName{Parts: []string{"alice"}}, check.Attributes)
			g.Expect(err).NotTo(HaveOccurred())
			if tc.threshold > 0 {
				g.Expect(state.Limits).To(HaveExactElements(HaveField("Threshold", tc.threshold)))
			}
		})
	}
}

// 131 headers cannot be iterated.
func TestManyHeadersDoNotEscapeADenial(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", overridden(deny(when(`request.headers.exists(h, h == "x-evil")`)))))
	check := named("a/x")
	check.Attributes.Headers = map[string]string{"x-evil": "1"}
	for i := range 130 {
		check.Attributes.Headers[fmt.Sprintf("h%d", i)] = "x"
	}
	g.Expect(f.decide(t, check).Reason).To(Equal(limiter.ReasonDeniedByOverride))
}

// Units that were spent under an override count under the stricter limits, and the reverse.
func TestStricterLimitsShareTheState(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", threshold(4), overridden(byHeader("gold", "gold", plan.ActionLimit, plan.LimitOverride{Name: "burst", Threshold: 50}))))
	with := func(h string) *limiter.Check {
		check := named("a/x")
		check.Attributes.Headers = map[string]string{"h": h}
		return check
	}
	for range 6 {
		g.Expect(f.decide(t, with("gold")).Allowed).To(BeTrue())
	}
	d := f.decide(t, with(strings.Repeat("x", 9000)))
	g.Expect(d.Allowed).To(BeFalse())
	g.Expect(d.Limits[0].Used).To(Equal(int64(6)))
	g.Expect(f.decide(t, with("gold")).Limits[0].Used).To(Equal(int64(7)))
}

func TestStricterLimit(t *testing.T) {
	minute, hour := time.Minute.Milliseconds(), time.Hour.Milliseconds()
	for name, tc := range map[string]struct{ a, b, want plan.Limit }{
		"another threshold": {
			plan.Limit{Algorithm: plan.FixedWindow, Threshold: 5, WindowMillis: minute},
			plan.Limit{Algorithm: plan.FixedWindow, Threshold: 3, WindowMillis: minute},
			plan.Limit{Algorithm: plan.FixedWindow, Threshold: 3, WindowMillis: minute},
		},
		"another window": {
			plan.Limit{Algorithm: plan.SlidingWindow, Threshold: 5, WindowMillis: minute, BucketMicros: 1},
			plan.Limit{Algorithm: plan.SlidingWindow, Threshold: 9, WindowMillis: hour, BucketMicros: 2},
			plan.Limit{Algorithm: plan.SlidingWindow, Threshold: 5, WindowMillis: hour, BucketMicros: 2},
		},
		"another block": {
			plan.Limit{Algorithm: plan.FixedWindow, Threshold: 5, WindowMillis: minute, BlockMillis: 7},
			plan.Limit{Algorithm: plan.FixedWindow, Threshold: 3, WindowMillis: minute, BlockMillis: 2},
			plan.Limit{Algorithm: plan.FixedWindow, Threshold: 3, WindowMillis: minute, BlockMillis: 7},
		},
		"lengths of blocks": {
			plan.Limit{Algorithm: plan.FixedWindow, Threshold: 3, WindowMillis: minute, BlockMillis: 2},
			plan.Limit{Algorithm: plan.FixedWindow, Threshold: 5, WindowMillis: minute, BlocksMillis: []int64{1, 9}, EscalationMillis: 50},
			plan.Limit{Algorithm: plan.FixedWindow, Threshold: 3, WindowMillis: minute, BlocksMillis: []int64{1, 9}, EscalationMillis: 50},
		},
		"a slower refill has its own state": {
			plan.Limit{Algorithm: plan.TokenBucket, Threshold: 60, Burst: 10, WindowMillis: minute},
			plan.Limit{Algorithm: plan.TokenBucket, Threshold: 600, Burst: 5, WindowMillis: hour, StateSuffix: "gold"},
			plan.Limit{Algorithm: plan.TokenBucket, Threshold: 600, Burst: 5, WindowMillis: hour, StateSuffix: "gold"},
		},
		"a smaller burst": {
			plan.Limit{Algorithm: plan.GCRA, Threshold: 60, Burst: 10, WindowMillis: minute},
			plan.Limit{Algorithm: plan.GCRA, Threshold: 90, Burst: 5, WindowMillis: minute, StateSuffix: "gold"},
			plan.Limit{Algorithm: plan.GCRA, Threshold: 60, Burst: 5, WindowMillis: minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(tc.a.Stricter(tc.b)).To(Equal(tc.want))
			g.Expect(tc.b.Stricter(tc.a)).To(Equal(tc.want))
		})
	}
}
