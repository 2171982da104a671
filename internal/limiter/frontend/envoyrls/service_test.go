// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// newUserAndPathFrontend has a policy of two limits by user and one of two a day by path.
func newUserAndPathFrontend(t *testing.T) *frontend {
	t.Helper()
	return newFrontend(t, makePlan("user", []string{"user"}, fixed("minute", 3, time.Minute), fixed("odd", 100, 90*time.Second)),
		makePlan("path", []string{"path"}, fixed("day", 2, 24*time.Hour)))
}

func TestStatusesOfAnAllowedRequest(t *testing.T) {
	g := NewWithT(t)
	r := newUserAndPathFrontend(t).send(request(descriptor("user=alice"), descriptor("other=x"), descriptor("path=/a")))
	g.Expect(codesOf(r)).To(HaveEach(ok))
	g.Expect(r.GetRawBody()).To(BeEmpty())
	g.Expect(header(r, "RateLimit")).To(Equal(`"shop/path-day";r=1;t=86400, "shop/user-minute";r=2;t=60, "shop/user-odd";r=99;t=90`))
	first := r.GetStatuses()[0]
	g.Expect(first.GetCurrentLimit().String()).To(And(
		ContainSubstring(`name:"shop/user-minute"`), ContainSubstring("requests_per_unit:3"), ContainSubstring("unit:MINUTE")))
	g.Expect([]any{first.GetLimitRemaining(), first.GetDurationUntilReset().AsDuration()}).To(Equal([]any{uint32(2), time.Minute}))
	g.Expect(r.GetStatuses()[1].GetCurrentLimit()).To(BeNil(), "no policy matches the descriptor")
	g.Expect(r.GetStatuses()[1].GetDurationUntilReset()).To(BeNil())
	g.Expect(r.GetStatuses()[2].GetCurrentLimit().GetUnit()).To(Equal(ratelimitv3.RateLimitResponse_RateLimit_DAY))
}

func TestStatusesOfADeniedRequest(t *testing.T) {
	g := NewWithT(t)
	d := newUserAndPathFrontend(t)
	d.send(request(descriptor("user=alice"), descriptor("path=/a")))
	d.send(request(descriptor("path=/a")))
	denied := d.send(request(descriptor("user=alice"), descriptor("path=/a")))
	g.Expect(codesOf(denied)).To(Equal([]ratelimitv3.RateLimitResponse_Code{over, ok, over}))
	g.Expect(remaining(denied)).To(Equal([]uint32{2, 0}), "the other descriptor is not charged")
	g.Expect(denied.GetStatuses()[1].GetDurationUntilReset().AsDuration()).To(Equal(24 * time.Hour))
	g.Expect(header(denied, "Retry-After")).To(Equal("86400"))
	g.Expect(header(denied, "Content-Type")).To(Equal("application/problem+json"))
	g.Expect(string(denied.GetRawBody())).To(And(
		ContainSubstring(`"status":429`), ContainSubstring(`"code":"Slow"`), ContainSubstring("Slow down. Try again in 24 hours.")))
}

func TestDenialsAsThePolicySets(t *testing.T) {
	g := NewWithT(t)
	p := makePlan("user", []string{"user"}, fixed("minute", 1, time.Minute))
	p.Denial.Status = 503 // the protocol has no status
	p.Denial.Headers = []plan.DenialHeader{{Name: "Cache-Control", Value: "no-store"}}
	p.Denial.Body = plan.DenialBody{ContentType: "text/plain", Template: "{{limit}}: {{retryAfter}}"}
	d := newFrontend(t, p)
	d.send(request(descriptor("user=alice")))
	denied := d.send(request(descriptor("user=alice")))
	g.Expect(header(denied, "Cache-Control")).To(Equal("no-store"))
	g.Expect(header(denied, "Content-Type")).To(Equal("text/plain; charset=utf-8"))
	g.Expect(string(denied.GetRawBody())).To(Equal("minute: 60"))
}

func TestWindowsBecomeUnits(t *testing.T) {
	for window, unit := range map[time.Duration]ratelimitv3.RateLimitResponse_RateLimit_Unit{
		time.Second: 1, time.Minute: 2, time.Hour: 3, 24 * time.Hour: 4, 7 * 24 * time.Hour: 7,
		90 * time.Second: 0, 500 * time.Millisecond: 0, 30 * 24 * time.Hour: 0,
	} {
		r := newFrontend(t, makePlan("p", []string{"a"}, fixed("l", 5, window))).send(request(descriptor("a=1")))
		current := r.GetStatuses()[0].GetCurrentLimit()
		NewWithT(t).Expect([]any{current.GetUnit(), current.GetName()}).To(Equal([]any{unit, "shop/p-l"}), window.String())
	}
}

func TestCalendarsBecomeUnits(t *testing.T) {
	for period, unit := range map[plan.Period]ratelimitv3.RateLimitResponse_RateLimit_Unit{
		plan.PeriodHour: 3, plan.PeriodDay: 4, plan.PeriodMonth: 5, plan.PeriodWeek: 7,
	} {
		limit := fixed("l", 5, 0)
		limit.Calendar = &plan.Calendar{Period: period, TimeZone: plan.UTC}
		r := newFrontend(t, makePlan("p", []string{"a"}, limit)).send(request(descriptor("a=1")))
		g := NewWithT(t)
		g.Expect(r.GetStatuses()[0].GetCurrentLimit().GetUnit()).To(Equal(unit), string(period))
		g.Expect(header(r, "RateLimit-Policy")).To(Equal(`"shop/p-l";q=5`))
	}
}

// Each case sends one request before the one whose answer it expects.
func TestDescriptorsAreCharged(t *testing.T) {
	user := func(threshold int64) *plan.Plan {
		return makePlan("user", []string{"user"}, fixed("l", threshold, time.Minute))
	}
	domain := makePlan("domain", nil, fixed("l", 10, time.Minute))
	send := func(hits uint32, descriptors ...*commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitRequest {
		r := request(descriptors...)
		r.HitsAddend = hits
		return r
	}
	for name, tc := range map[string]struct {
		plans       []*plan.Plan
		before, now *ratelimitv3.RateLimitRequest
		codes       []ratelimitv3.RateLimitResponse_Code
		remaining   []uint32
	}{
		"no hits mean one": {
			[]*plan.Plan{user(5)},
			send(0, descriptor("user=a")), send(0, descriptor("user=a")),
			[]ratelimitv3.RateLimitResponse_Code{ok, ok},
			[]uint32{3},
		},
		"hits of the request apply to each descriptor": {
			[]*plan.Plan{user(5)},
			send(2, descriptor("user=a")), send(2, descriptor("user=a"), descriptor("user=b")),
			[]ratelimitv3.RateLimitResponse_Code{ok, ok, ok},
			[]uint32{1, 3},
		},
		"hits of a descriptor override hits of the request": {
			[]*plan.Plan{user(5)},
			send(9, descriptor("user=a", hits(3))), send(1, descriptor("user=a", hits(2)), descriptor("user=b")),
			[]ratelimitv3.RateLimitResponse_Code{ok, ok, ok},
			[]uint32{0, 4},
		},
		"a descriptor with zero hits peeks": {
			[]*plan.Plan{user(5)},
			send(4, descriptor("user=a")), send(1, descriptor("user=a", hits(0)), descriptor("user=b")),
			[]ratelimitv3.RateLimitResponse_Code{ok, ok, ok},
			[]uint32{1, 4},
		},
		"a peek at a full limit is over": {
			[]*plan.Plan{user(5)},
			send(5, descriptor("user=a")), send(1, descriptor("user=a", hits(0)), descriptor("user=b")),
			[]ratelimitv3.RateLimitResponse_Code{over, over, ok},
			[]uint32{0, 5},
		},
		"the same policy and key is charged once, with the most hits": {
			[]*plan.Plan{user(9)},
			send(1, descriptor("user=b")),
			send(1, descriptor("user=a x=1", hits(2)), descriptor("user=a x=2", hits(4)), descriptor("user=a x=3", hits(0))),
			[]ratelimitv3.RateLimitResponse_Code{ok, ok, ok, ok},
			[]uint32{5, 5, 5},
		},
		"a policy of the domain matches each descriptor and is charged once": {
			[]*plan.Plan{domain},
			send(3, descriptor("x=1")), send(1, descriptor("x=1", hits(0)), descriptor("y=2", hits(2))),
			[]ratelimitv3.RateLimitResponse_Code{ok, ok, ok},
			[]uint32{5, 5},
		},
		"a policy of the domain denies each descriptor": {
			[]*plan.Plan{domain, user(99)},
			send(10, descriptor("x=1")), send(1, descriptor("user=a"), descriptor("y=2")),
			[]ratelimitv3.RateLimitResponse_Code{over, over, over},
			[]uint32{0, 0},
		},
		"a cost above the threshold charges no descriptor": {
			[]*plan.Plan{user(5)},
			send(1, descriptor("user=b")), send(1, descriptor("user=a", hits(6)), descriptor("user=b")),
			[]ratelimitv3.RateLimitResponse_Code{over, over, ok},
			[]uint32{5, 4},
		},
		"a cost above the threshold beside an exhausted key": {
			[]*plan.Plan{user(5)},
			send(5, descriptor("user=b")), send(1, descriptor("user=b"), descriptor("user=a", hits(6))),
			[]ratelimitv3.RateLimitResponse_Code{over, over, over},
			[]uint32{0, 5},
		},
		"the largest cost": {
			[]*plan.Plan{user(plan.MaxCost)},
			send(1, descriptor("user=b")), send(1, descriptor("user=a", hits(plan.MaxCost))),
			[]ratelimitv3.RateLimitResponse_Code{ok, ok},
			[]uint32{0},
		},
		"more units left than an uint32 holds": {
			[]*plan.Plan{user(plan.MaxCost)},
			send(1, descriptor("user=b")), send(math.MaxUint32, descriptor("user=a")),
			[]ratelimitv3.RateLimitResponse_Code{ok, ok},
			[]uint32{math.MaxUint32},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := newFrontend(t, tc.plans...)
			d.send(tc.before)
			r := d.send(tc.now)
			g.Expect(codesOf(r)).To(Equal(tc.codes))
			g.Expect(remaining(r)).To(Equal(tc.remaining))
			g.Expect(d.store.calls).To(Equal(2), "one store call a request")
		})
	}
}

func TestDecisionsWithoutLimits(t *testing.T) {
	edited := func(edit func(*plan.Plan)) *plan.Plan {
		p := makePlan("user", []string{"user"}, fixed("l", 5, time.Minute))
		edit(p)
		return p
	}
	first := []ratelimitv3.RateLimitResponse_Code{over, over, ok}
	for name, tc := range map[string]struct {
		plan   *plan.Plan
		err    error
		user   string
		codes  []ratelimitv3.RateLimitResponse_Code
		reason string
		header string
	}{
		"denied by an override": {
			plan: edited(func(p *plan.Plan) {
				p.Overrides = []plan.Override{{Name: "banned", Keys: []string{"eve"}, Action: plan.ActionDeny}}
			}), user: "eve", codes: first, reason: "DeniedByOverride",
		},
		"allowed by an override": {
			plan: edited(func(p *plan.Plan) {
				p.Overrides = []plan.Override{{Name: "staff", Keys: []string{"eve"}, Action: plan.ActionAllow}}
			}), user: "eve", codes: []ratelimitv3.RateLimitResponse_Code{ok, ok, ok},
		},
		"denied for a missing key": {
			plan: edited(func(p *plan.Plan) { p.OnMissingKey = plan.MissingKeyDeny }), codes: first, reason: "MissingKey",
		},
		"a shadow policy": {
			plan:  edited(func(p *plan.Plan) { p.Mode, p.Limits[0].Threshold = plan.ModeShadow, 1 }),
			codes: []ratelimitv3.RateLimitResponse_Code{ok, ok, ok}, user: "eve",
		},
		"closed without Redis": {
			plan: edited(func(p *plan.Plan) { p.FailureMode = plan.FailClosed }), err: errors.New("down"),
			user: "eve", codes: first, reason: "StoreUnavailable", header: "closed",
		},
		"open without Redis": {
			plan: edited(func(*plan.Plan) {}), err: errors.New("down"),
			user: "eve", codes: []ratelimitv3.RateLimitResponse_Code{ok, ok, ok}, header: "open",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := newFrontend(t, tc.plan)
			d.store.err = tc.err
			r := d.send(request(descriptor("user="+tc.user), descriptor("other=x")))
			g.Expect(codesOf(r)).To(Equal(tc.codes))
			for _, s := range r.GetStatuses() {
				g.Expect(s.GetCurrentLimit()).To(BeNil())
			}
			g.Expect(header(r, "Weir-Degraded")).To(Equal(tc.header))
			if tc.reason == "" {
				g.Expect(r.GetRawBody()).To(BeEmpty())
				return
			}
			g.Expect(string(r.GetRawBody())).To(And(ContainSubstring(`"reason":"`+tc.reason+`"`), ContainSubstring(`"status":429`)))
		})
	}
}

// A block applies to one policy and key, also when the answer names another policy.
func TestBlockDeniesOneDescriptor(t *testing.T) {
	g := NewWithT(t)
	blocking := makePlan("user", []string{"user"}, fixed("l", 5, time.Minute))
	blocking.Limits[0].BlockMillis = 600_000
	d := newFrontend(t, makePlan("path", []string{"path"}, fixed("l", 1, time.Minute)), blocking)
	d.send(request(descriptor("path=/a")))
	for range 2 {
		d.send(request(descriptor("user=eve", hits(3)))) // the second starts the block
	}
	blocked := d.send(request(descriptor("user=bob"), descriptor("user=eve")))
	g.Expect(codesOf(blocked)).To(Equal([]ratelimitv3.RateLimitResponse_Code{over, ok, over}))
	g.Expect(remaining(blocked)).To(Equal([]uint32{5, 0}))
	both := d.send(request(descriptor("path=/a"), descriptor("user=eve")))
	g.Expect(codesOf(both)).To(Equal([]ratelimitv3.RateLimitResponse_Code{over, over, over}))
	g.Expect(remaining(both)).To(Equal([]uint32{0, 0}))
	g.Expect(string(both.GetRawBody())).To(ContainSubstring(`"policy":"shop/path"`))
}

func TestPeeksAreNotCounted(t *testing.T) {
	g := NewWithT(t)
	d := newFrontend(t, makePlan("user", []string{"user"}, fixed("l", 5, time.Minute)), makePlan("path", []string{"path"}, fixed("l", 5, time.Minute)))
	d.send(request(descriptor("user=a", hits(0)), descriptor("path=/")))
	g.Expect(d.count("weir_decisions_total")).To(Equal(1))
	d.send(request(descriptor("user=a", hits(0)), descriptor("user=a x=1")))
	g.Expect(d.count("weir_decisions_total")).To(Equal(2), "one of the descriptors charges units")
}

func TestInvalidRequestsAreRejected(t *testing.T) {
	many := make([]*commonv3.RateLimitDescriptor, limiter.MaxDescriptors+1)
	for i := range many {
		many[i] = descriptor("user=a")
	}
	d := newFrontend(t, makePlan("user", []string{"user"}, fixed("l", 5, time.Minute)))
	for name, tc := range map[string]struct {
		request *ratelimitv3.RateLimitRequest
		want    string
	}{
		"an empty request":              {&ratelimitv3.RateLimitRequest{}, "domain: must not be empty"},
		"no domain":                     {&ratelimitv3.RateLimitRequest{Descriptors: many[:1]}, "domain: must not be empty"},
		"no descriptors":                {&ratelimitv3.RateLimitRequest{Domain: "edge"}, "descriptors: must not be empty"},
		"too many descriptors":          {request(many...), "descriptors: has 65 elements, at most 64"},
		"too many hits of a descriptor": {request(many[0], descriptor("user=a", hits(plan.MaxCost+1))), "descriptors[1].hits_addend: must be at most 1000000000000"},
		"more hits than an int64":       {request(descriptor("user=a", hits(1<<64-1))), "descriptors[0].hits_addend: must be at most 1000000000000"},
		"negative hits": {
			request(descriptor("user=a", func(d *commonv3.RateLimitDescriptor) { d.IsNegativeHits = true })),
			"descriptors[0].is_negative_hits: is not supported",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := d.ShouldRateLimit(t.Context(), tc.request)
			g.Expect(status.Code(err)).To(Equal(codes.InvalidArgument))
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
	NewWithT(t).Expect(d.store.calls).To(BeZero())
}

// Values from a client of the proxy must not cause an error, because the proxy allows requests
// whose check fails.
func TestAnyDescriptorValueIsLimited(t *testing.T) {
	g := NewWithT(t)
	d := newFrontend(t, makePlan("user", []string{"user"}, fixed("l", 1, time.Minute)))
	for _, value := range []string{"", "\x00", "a b", strings.Repeat("x", 100_000), "{}:|%", "☃", "\xff"} {
		r := request(&commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: value}}})
		g.Expect([]any{d.send(r).GetOverallCode(), d.send(r).GetOverallCode()}).To(Equal([]any{ok, over}), value[:min(9, len(value))])
	}
	g.Expect(codesOf(d.send(request(&commonv3.RateLimitDescriptor{}, nil)))).To(Equal([]ratelimitv3.RateLimitResponse_Code{ok, ok, ok}))
}

func TestRequestNeedsPlans(t *testing.T) {
	_, err := newFrontend(t).ShouldRateLimit(t.Context(), request(descriptor("a=1")))
	NewWithT(t).Expect(status.Code(err)).To(Equal(codes.Unavailable))
}

func TestCanceledRequestIsReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := newFrontend(t, makePlan("user", []string{"user"}, fixed("l", 1, time.Minute)))
	d.store.err = context.Canceled
	_, err := d.ShouldRateLimit(ctx, request(descriptor("user=1")))
	NewWithT(t).Expect(status.Code(err)).To(Equal(codes.Canceled))
}
