// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls_test

import (
	"fmt"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestRequestedLimitReplacesALimit(t *testing.T) {
	minute, hour := fixed("minute", 5, time.Minute), fixed("hour", 50, time.Hour)
	for name, tc := range map[string]struct {
		limits    []plan.Limit
		requested func(*commonv3.RateLimitDescriptor)
		current   string // name, units, unit, remaining
		ignored   int
	}{
		"the limit with its window": {
			[]plan.Limit{minute, hour}, limit(2, typev3.RateLimitUnit_MINUTE), "shop/user-minute 2 MINUTE 1", 0,
		},
		"another limit is tighter": {
			[]plan.Limit{minute, hour}, limit(9000, typev3.RateLimitUnit_HOUR), "shop/user-minute 5 MINUTE 4", 0,
		},
		"the only limit": {
			[]plan.Limit{minute}, limit(7, typev3.RateLimitUnit_HOUR), "shop/user-minute 7 HOUR 6", 0,
		},
		"no limit with its window": {
			[]plan.Limit{minute, hour}, limit(7, typev3.RateLimitUnit_DAY), "shop/user-minute 5 MINUTE 4", 1,
		},
		"a unit longer than any limit": {
			[]plan.Limit{minute}, limit(7, typev3.RateLimitUnit_YEAR), "shop/user-minute 5 MINUTE 4", 1,
		},
		"no unit": {
			[]plan.Limit{minute}, limit(7, typev3.RateLimitUnit_UNKNOWN), "shop/user-minute 5 MINUTE 4", 1,
		},
		"the largest quota that can be requested": {
			[]plan.Limit{minute}, limit(1<<32-1, typev3.RateLimitUnit_MINUTE), "shop/user-minute 4294967295 MINUTE 4294967294", 0,
		},
		"more than the largest quota": {
			[]plan.Limit{{Name: "b", Algorithm: plan.TokenBucket, Threshold: 5, Burst: 50, WindowMillis: 1000}},
			limit(1<<32-1, typev3.RateLimitUnit_SECOND), "shop/user-b 2147483647 SECOND 2147483646", 0,
		},
		"a bucket": {
			[]plan.Limit{{Name: "b", Algorithm: plan.TokenBucket, Threshold: 5, Burst: 50, WindowMillis: 1000}},
			limit(9, typev3.RateLimitUnit_SECOND), "shop/user-b 9 SECOND 8", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := newFrontend(t, makePlan("user", []string{"user"}, tc.limits...))
			s := d.send(request(descriptor("user=a", tc.requested))).GetStatuses()[0]
			l := s.GetCurrentLimit()
			got := fmt.Sprint(l.GetName(), " ", l.GetRequestsPerUnit(), " ", l.GetUnit(), " ", s.GetLimitRemaining())
			g.Expect(got).To(Equal(tc.current))
			g.Expect(d.count("weir_requested_limits_ignored_total")).To(Equal(tc.ignored))
		})
	}
}

// newRequestableFrontend has a policy of two a minute by user and one of 100 a minute for the domain.
func newRequestableFrontend(t *testing.T) *frontend {
	t.Helper()
	return newFrontend(t, makePlan("user", []string{"user"}, fixed("l", 2, time.Minute)), makePlan("domain", nil, fixed("l", 100, time.Minute)))
}

// A requested limit applies to its request only, and uses the counter of the policy.
func TestRequestedLimitSharesTheCounter(t *testing.T) {
	g := NewWithT(t)
	d := newRequestableFrontend(t)
	plain, gold := descriptor("user=a"), descriptor("user=a", limit(4, typev3.RateLimitUnit_MINUTE))
	for _, step := range []struct {
		d    *commonv3.RateLimitDescriptor
		code ratelimitv3.RateLimitResponse_Code
	}{{plain, ok}, {plain, ok}, {plain, over}, {gold, ok}, {gold, ok}, {gold, over}, {plain, over}} {
		g.Expect(d.send(request(step.d)).GetOverallCode()).To(Equal(step.code))
	}
}

func TestRequestedLimitOfZeroDenies(t *testing.T) {
	g := NewWithT(t)
	r := newRequestableFrontend(t).send(request(descriptor("user=b", limit(0, typev3.RateLimitUnit_MINUTE))))
	g.Expect(r.GetOverallCode()).To(Equal(over))
	g.Expect(r.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()).To(BeZero())
	g.Expect(header(r, "Retry-After")).To(BeEmpty(), "waiting does not help")
}

func TestRequestedLimitKeepsPoliciesOfTheDomain(t *testing.T) {
	r := newRequestableFrontend(t).send(request(descriptor("user=b", limit(0, typev3.RateLimitUnit_MINUTE))))
	NewWithT(t).Expect(header(r, "RateLimit-Policy")).To(ContainSubstring(`"shop/domain-l";q=100`))
}
