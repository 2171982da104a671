// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// field is one item of a structured list with the parameters it has.
type field struct {
	name       string
	parameters map[string]int64
}

// readFields parses the header with a library for structured fields.
func readFields(g *WithT, values []string) []field {
	if values == nil {
		return nil
	}
	list, err := httpsfv.UnmarshalList(values)
	g.Expect(err).NotTo(HaveOccurred())
	fields := make([]field, len(list))
	for i, member := range list {
		item, ok := member.(httpsfv.Item)
		g.Expect(ok).To(BeTrue())
		fields[i] = field{name: item.Value.(string), parameters: map[string]int64{}}
		for _, name := range item.Params.Names() {
			value, _ := item.Params.Get(name)
			fields[i].parameters[name] = value.(int64)
		}
	}
	return fields
}

// headersOf returns the headers of the answer by name.
func headersOf(d *limiter.Decision, o Options) map[string][]string {
	a := New(d, o)
	defer a.Release()
	headers := map[string][]string{}
	for _, h := range a.Headers {
		headers[h.Name] = append(headers[h.Name], h.Value)
	}
	return headers
}

func TestRateLimitHeadersDescribeEachLimit(t *testing.T) {
	type numbers = map[string]int64
	burst := limiter.LimitState{
		Policy: "shop/login", Limit: "burst", Allowed: true, Quota: 5, Threshold: 6, Window: time.Minute,
		Used: 2, Remaining: 3, ResetAfter: 41*time.Second + 1,
	}
	daily := limiter.LimitState{
		Policy: "shop/api", Limit: "daily", Allowed: true, Quota: 1000, Threshold: 1000, Window: 24 * time.Hour,
		Used: 1, Remaining: 999, ResetAfter: 24 * time.Hour,
	}
	with := func(l limiter.LimitState, change func(l *limiter.LimitState)) limiter.LimitState {
		change(&l)
		return l
	}
	full := with(burst, func(l *limiter.LimitState) { l.Allowed, l.Used, l.Remaining = false, 5, 0 })
	shadow := with(full, func(l *limiter.LimitState) { l.Shadow = true })
	tests := map[string]struct {
		decision         limiter.Decision
		policies, states []field
	}{
		"no policy":        {decision: limiter.Decision{Allowed: true, Reason: limiter.ReasonNoPolicy}},
		"disabled":         {decision: limiter.Decision{Allowed: true, Reason: limiter.ReasonDisabled}},
		"exempt":           {decision: limiter.Decision{Allowed: true, Reason: limiter.ReasonExempt}},
		"no store, open":   {decision: limiter.Decision{Allowed: true, Reason: limiter.ReasonStoreUnavailable, Degraded: plan.FailOpen}},
		"no store, closed": {decision: limiter.Decision{Reason: limiter.ReasonStoreUnavailable, Degraded: plan.FailClosed, RetryAfter: time.Second}},
		"shadow":           {decision: limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed, Limits: []limiter.LimitState{shadow}}},
		"allowed": {
			decision: limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed, Limits: []limiter.LimitState{burst, shadow, daily}},
			policies: []field{{"shop/login-burst", numbers{"q": 5, "w": 60}}, {"shop/api-daily", numbers{"q": 1000, "w": 86400}}},
			states:   []field{{"shop/login-burst", numbers{"r": 3, "t": 42}}, {"shop/api-daily", numbers{"r": 999, "t": 86400}}},
		},
		"denied": {
			decision: limiter.Decision{Reason: limiter.ReasonLimitExceeded, RetryAfter: 11001 * time.Millisecond, Limits: []limiter.LimitState{full, daily}},
			policies: []field{{"shop/login-burst", numbers{"q": 5, "w": 60}}, {"shop/api-daily", numbers{"q": 1000, "w": 86400}}},
			states:   []field{{"shop/login-burst", numbers{"r": 0, "t": 12}}, {"shop/api-daily", numbers{"r": 999, "t": 12}}},
		},
		"blocked": {
			decision: limiter.Decision{
				Reason: limiter.ReasonBlocked, Policy: "shop/login", RetryAfter: time.Hour,
				Limits: []limiter.LimitState{with(burst, func(l *limiter.LimitState) { l.Allowed, l.Blocked = false, true }), daily},
			},
			policies: []field{{"shop/login-burst", numbers{"q": 5, "w": 60}}, {"shop/api-daily", numbers{"q": 1000, "w": 86400}}},
			states:   []field{{"shop/login-burst", numbers{"r": 0, "t": 3600}}, {"shop/api-daily", numbers{"r": 999, "t": 3600}}},
		},
		"cost above the quota": {
			decision: limiter.Decision{Reason: limiter.ReasonCostExceedsThreshold, Limits: []limiter.LimitState{burst}},
			policies: []field{{"shop/login-burst", numbers{"q": 5, "w": 60}}},
			states:   []field{{"shop/login-burst", numbers{"r": 3, "t": 42}}},
		},
		"fractions of a second": {
			decision: limiter.Decision{Allowed: true, Limits: []limiter.LimitState{
				with(burst, func(l *limiter.LimitState) { l.Limit, l.Window = "a", 1500*time.Millisecond }),
				with(burst, func(l *limiter.LimitState) { l.Limit, l.Window = "b", time.Millisecond }),
				with(burst, func(l *limiter.LimitState) { l.Limit, l.Window, l.ResetAfter = "c", time.Second, 0 }),
			}},
			policies: []field{{"shop/login-a", numbers{"q": 5}}, {"shop/login-b", numbers{"q": 5}}, {"shop/login-c", numbers{"q": 5, "w": 1}}},
			states: []field{
				{"shop/login-a", numbers{"r": 3, "t": 42}},
				{"shop/login-b", numbers{"r": 3, "t": 42}},
				{"shop/login-c", numbers{"r": 3, "t": 0}},
			},
		},
		"two keys of one policy": {
			decision: limiter.Decision{Allowed: true, Limits: []limiter.LimitState{
				burst, with(burst, func(l *limiter.LimitState) { l.Remaining = 1 }), burst,
			}},
			policies: []field{{"shop/login-burst", numbers{"q": 5, "w": 60}}},
			states:   []field{{"shop/login-burst", numbers{"r": 1, "t": 42}}},
		},
		"largest numbers": {
			decision: limiter.Decision{Allowed: true, Limits: []limiter.LimitState{with(burst, func(l *limiter.LimitState) {
				l.Quota, l.Remaining, l.Window, l.ResetAfter = plan.MaxCost, plan.MaxCost, plan.MaxWindow, 1<<63-1
			})}},
			policies: []field{{"shop/login-burst", numbers{"q": plan.MaxCost, "w": 2592000}}},
			states:   []field{{"shop/login-burst", numbers{"r": plan.MaxCost, "t": 9223372037}}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			headers := headersOf(&tc.decision, Options{})
			g.Expect(readFields(g, headers[HeaderRateLimitPolicy])).To(Equal(tc.policies))
			g.Expect(readFields(g, headers[HeaderRateLimit])).To(Equal(tc.states))
			g.Expect(headers).NotTo(HaveKey(headerLegacyLimit))
		})
	}
}

func TestLegacyHeadersDescribeTheTightestLimit(t *testing.T) {
	limit := func(allowed bool, quota, remaining int64, reset time.Duration) limiter.LimitState {
		return limiter.LimitState{Policy: "a/b", Limit: "l", Allowed: allowed, Quota: quota, Remaining: remaining, ResetAfter: reset}
	}
	shadow := limit(false, 9, 0, time.Hour)
	shadow.Shadow = true
	tests := map[string]struct {
		decision limiter.Decision
		want     []string // limit, remaining, reset
	}{
		"none":                  {limiter.Decision{Allowed: true}, []string{"", "", ""}},
		"only shadow":           {limiter.Decision{Allowed: true, Limits: []limiter.LimitState{shadow}}, []string{"", "", ""}},
		"least remaining":       {limiter.Decision{Allowed: true, Limits: []limiter.LimitState{limit(true, 100, 50, 0), limit(true, 5, 3, 1), limit(true, 7, 4, 0)}}, []string{"5", "3", "1"}},
		"longest wait":          {limiter.Decision{Allowed: true, Limits: []limiter.LimitState{limit(true, 5, 0, time.Second), limit(true, 7, 0, time.Minute)}}, []string{"7", "0", "60"}},
		"the limit that denies": {limiter.Decision{RetryAfter: 1, Limits: []limiter.LimitState{limit(true, 5, 0, time.Hour), limit(false, 7, 2, 0)}}, []string{"7", "2", "1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, o := range []Options{{LegacyHeaders: true}, {LegacyHeaders: true, BodyOnDenialOnly: true}, {LegacyHeaders: true, DenyStatus: 403}} {
				var got []string
				headers := headersOf(&tc.decision, o)
				for _, name := range []string{headerLegacyLimit, headerLegacyRemaining, headerLegacyReset} {
					got = append(got, strings.Join(headers[name], ","))
				}
				g.Expect(got).To(Equal(tc.want))
			}
		})
	}
}

func TestHeadersShowTheTightestLimits(t *testing.T) {
	g := NewWithT(t)
	d := &limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed}
	for i := range 512 {
		d.Limits = append(d.Limits, limiter.LimitState{
			Policy: fmt.Sprintf("shop/p%03d", i%256), Limit: "burst", Allowed: true, Quota: 1000, Threshold: 1000, Window: time.Minute,
			Remaining: int64(1000 - i), Shadow: i%2 == 1 && i > 500,
		})
	}
	headers := headersOf(d, Options{LegacyHeaders: true})
	states := readFields(g, headers[HeaderRateLimit])
	g.Expect(readFields(g, headers[HeaderRateLimitPolicy])).To(HaveLen(16))
	names := make([]string, len(states))
	for i := range states {
		names[i] = states[i].name
	}
	// 501, 503, 505, 507, 509 and 511 are in mode Shadow; p245 has a wider limit beside 501.
	g.Expect(names).To(HaveExactElements(
		"shop/p234-burst", "shop/p235-burst", "shop/p236-burst", "shop/p237-burst", "shop/p238-burst", "shop/p239-burst",
		"shop/p240-burst", "shop/p241-burst", "shop/p242-burst", "shop/p243-burst", "shop/p244-burst",
		"shop/p246-burst", "shop/p248-burst", "shop/p250-burst", "shop/p252-burst", "shop/p254-burst"))
	g.Expect(headers["X-RateLimit-Remaining"]).To(HaveExactElements("490"))
}
