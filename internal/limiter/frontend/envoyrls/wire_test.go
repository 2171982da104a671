// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/envoyrls"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// expecting is a Decider that compares each check with the one it expects. It may not keep
// the check.
type expecting struct {
	g      *WithT
	want   *limiter.Check
	called bool
}

func (e *expecting) Decide(_ context.Context, check *limiter.Check) (*limiter.Decision, error) {
	e.called = true
	e.g.Expect(withoutMemory(check)).To(Equal(e.want))
	return &limiter.Decision{Allowed: true}, nil
}

// withoutMemory returns what the check asks.
func withoutMemory(check *limiter.Check) *limiter.Check {
	asked := *check
	asked.Memory = nil
	return &asked
}

// bytesField returns a length-delimited field, as messages and strings are.
func bytesField(number protowire.Number, parts ...string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), strings.Join(parts, "")))
}

func varintField(number protowire.Number, value uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value))
}

// group returns a group, which is an unknown field of every message here.
func group(number protowire.Number, fields string) string {
	start := protowire.AppendTag(nil, number, protowire.StartGroupType)
	return string(start) + fields + string(protowire.AppendTag(nil, number, protowire.EndGroupType))
}

func manyRoutes(named func(key, value string) string) (entries []string) {
	for i := range plan.MaxTargets + 1 {
		entries = append(entries, named("weir_route", fmt.Sprintf("HTTPRoute/shop/r%d", i)))
	}
	return entries
}

// encodedRequests are requests that encoders may send, and malformed bytes.
func encodedRequests() map[string]string {
	named := func(key, value string) string { return bytesField(1, bytesField(1, key), bytesField(2, value)) }
	entry := named("user", "alice")
	plain := bytesField(1, "edge") + bytesField(2, entry)
	limited := bytesField(2, varintField(1, 5), varintField(2, 2))
	fixed32 := string(protowire.AppendFixed32(protowire.AppendTag(nil, 1, protowire.Fixed32Type), 7))
	fixed64 := string(protowire.AppendFixed64(protowire.AppendTag(nil, 3, protowire.Fixed64Type), 7))
	return map[string]string{
		"empty":                         "",
		"one descriptor":                plain,
		"two descriptors":               plain + bytesField(2, entry, entry),
		"hits":                          plain + varintField(3, 7),
		"hits above 32 bits":            plain + varintField(3, 1<<32+9),
		"most hits":                     plain + varintField(3, math.MaxUint32),
		"most hits of a descriptor":     plain + bytesField(2, entry, bytesField(3, varintField(1, plan.MaxCost))),
		"hits of a descriptor":          plain + bytesField(2, entry, bytesField(3, varintField(1, 4))),
		"zero hits of a descriptor":     plain + bytesField(2, entry, bytesField(3)),
		"too many hits of a descriptor": plain + bytesField(2, entry, bytesField(3, varintField(1, math.MaxUint64))),
		"negative hits":                 plain + bytesField(2, entry, varintField(4, 2)),
		"negative hits, withdrawn":      plain + bytesField(2, entry, varintField(4, 1), varintField(4, 0)),
		"negative and too many hits":    plain + bytesField(2, varintField(4, 1), bytesField(3, varintField(1, 1<<40))),
		"a limit":                       plain + bytesField(2, entry, limited) + bytesField(2, bytesField(2)) + bytesField(2, limited),
		"a limit with a multiplier":     plain + bytesField(2, bytesField(2, varintField(1, 5), bytesField(3, varintField(1, 2)))),
		"a limit of an unknown unit":    plain + bytesField(2, bytesField(2, varintField(2, 99))),
		"a limit with large numbers":    plain + bytesField(2, bytesField(2, varintField(1, math.MaxUint64), varintField(2, 1<<32+2))),
		"no descriptors":                bytesField(1, "edge"),
		"empty descriptors":             bytesField(1, "edge") + bytesField(2) + bytesField(2, bytesField(1)),
		"most descriptors":              plain + strings.Repeat(bytesField(2, entry), limiter.MaxDescriptors-1),
		"too many descriptors":          plain + strings.Repeat(bytesField(2, entry), limiter.MaxDescriptors) + varintField(3, 1<<31),
		"fields twice":                  bytesField(1, "a") + plain + varintField(3, 7) + varintField(3, 8),
		"an entry with fields twice":    plain + bytesField(2, bytesField(1, bytesField(1, "a"), bytesField(1, "b"), bytesField(2, "c"), bytesField(2, ""))),
		"merged hits":                   plain + bytesField(2, bytesField(3, varintField(1, 4)), bytesField(3)),
		"merged limit":                  plain + bytesField(2, bytesField(2, varintField(1, 5)), bytesField(2, varintField(2, 3))),
		"another order":                 varintField(3, 2) + bytesField(2, limited, entry) + bytesField(1, "edge"),
		"unknown fields":                plain + bytesField(9, "x") + varintField(8, 1) + fixed64 + bytesField(2, bytesField(5, "x"), bytesField(1, bytesField(3, "\xff"))),
		"groups":                        plain + group(9, group(8, fixed64)) + bytesField(2, group(1, "")),
		"other types":                   fixed32 + varintField(1, 7) + varintField(2, 7) + bytesField(3, "\x01") + plain + bytesField(2, fixed32, fixed64, bytesField(4, "x")),
		"numbers in more bytes":         "\x8a\x80\x00\x84\x80\x00edge" + bytesField(2, entry),
		"not UTF-8":                     bytesField(1, "ed\xffge") + bytesField(2, bytesField(1, bytesField(1, "\xc3\x28"), bytesField(2, "ä\xf0\x9f☃\ufffd"))),

		"a reservation":           plain + bytesField(2, entry, named("weir_reservation", "r-1"), bytesField(3, varintField(1, 40))),
		"a reservation, peeked":   bytesField(1, "edge") + bytesField(2, named("weir_reservation", "r-1"), entry, bytesField(3)),
		"a commit":                plain + bytesField(2, named("weir_commit", "r-1"), entry, named("weir_commit", "r-1")) + bytesField(2, named("weir_commit", "r-1")),
		"a commit of 0":           plain + bytesField(2, named("weir_commit", "r-1"), entry, bytesField(3)),
		"an empty id":             plain + bytesField(2, entry, named("weir_reservation", "")),
		"two ids":                 plain + bytesField(2, named("weir_commit", "r-1"), entry) + bytesField(2, named("weir_commit", "r-2")),
		"two ids, one entry":      plain + bytesField(2, named("weir_commit", "r-1"), entry, named("weir_commit", "r-2")),
		"reserve and commit":      plain + bytesField(2, named("weir_reservation", "r-1")) + bytesField(2, named("weir_commit", "r-1")),
		"a response":              plain + bytesField(2, named("weir_commit", "r-1"), named("weir_response_code", "401"), entry),
		"no response":             plain + bytesField(2, named("weir_commit", "r-1"), named("weir_response_code", "0")),
		"the response twice":      plain + bytesField(2, named("weir_response_code", "401")) + bytesField(2, named("weir_response_code", "0401")),
		"two responses":           plain + bytesField(2, named("weir_response_code", "0")) + bytesField(2, named("weir_response_code", "401")),
		"a long response":         plain + bytesField(2, named("weir_response_code", "1000")),
		"a negative response":     plain + bytesField(2, named("weir_response_code", "-1")),
		"a response with a sign":  plain + bytesField(2, named("weir_response_code", "+401")),
		"an empty response":       plain + bytesField(2, named("weir_response_code", "")),
		"an unset response":       plain + bytesField(2, named("weir_response_code", "%RESPONSE_CODE%")),
		"a route":                 plain + bytesField(2, named("weir_route", "HTTPRoute/shop/shop/checkout"), entry),
		"a Gateway and a route":   plain + bytesField(2, named("weir_gateway", "infra/public"), named("weir_route", "HTTPRoute/shop/shop")) + bytesField(2, named("weir_gateway", "infra/public")),
		"a bad route":             plain + bytesField(2, named("weir_route", "shop")),
		"a bad Gateway":           plain + bytesField(2, named("weir_gateway", "public")),
		"17 routes":               plain + bytesField(2, manyRoutes(named)...),
		"a cut tag":               plain + "\x8a",
		"a cut string":            bytesField(1, "edge") + "\x0a\x05abc",
		"a cut number":            plain + "\x18\x80",
		"a cut message":           bytesField(1, "edge") + bytesField(2, "\x0a\x05ab"),
		"a cut entry":             plain + bytesField(2, bytesField(1, "\x0a")),
		"a cut limit":             plain + bytesField(2, bytesField(2, "\x08")),
		"a cut multiplier":        plain + bytesField(2, bytesField(2, bytesField(3, "\x08"))),
		"cut hits":                plain + bytesField(2, bytesField(3, "\x08")),
		"a cut last descriptor":   plain + strings.Repeat(bytesField(2), 70) + bytesField(2, "\x0a"),
		"field 0":                 plain + "\x02\x00",
		"a field above the bound": plain + "\x80\x80\x80\x80\x10\x00",
		"an unknown type":         plain + "\x0f",
		"the end of no group":     plain + "\x4c",
		"a group without end":     plain + "\x4b",
		"a group with other end":  plain + "\x4b\x54",
		"a long number":           plain + "\x18" + strings.Repeat("\xff", 10),
		"a long length":           plain + "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	}
}

// expectDecoded expects the service to decode the bytes as the specification does: the same
// check, or the same error.
func expectDecoded(t *testing.T, service *wired, decider *expecting, wire []byte) {
	t.Helper()
	g := NewWithT(t)
	*decider = expecting{g: g}
	code, message := codes.OK, ""
	if r, err := readRequest(wire); err != nil {
		code = codes.Internal
	} else if decider.want, err = checkOf(r); err != nil {
		code, message = codes.InvalidArgument, err.Error()
	}
	kept := bytes.Clone(wire)
	_, err := service.call(t.Context(), wire)
	g.Expect(status.Code(err)).To(Equal(code))
	if code == codes.InvalidArgument {
		g.Expect(status.Convert(err).Message()).To(Equal(message))
	}
	g.Expect(decider.called).To(Equal(code == codes.OK))
	g.Expect(wire).To(Equal(kept), "the bytes belong to the transport")
}

func TestRequestsAreDecodedAsTheGeneratedCodeDoes(t *testing.T) {
	decider := &expecting{}
	service := newWired(envoyrls.New(envoyrls.Options{Engine: decider}))
	for name, wire := range encodedRequests() {
		t.Run(name, func(t *testing.T) { expectDecoded(t, service, decider, []byte(wire)) })
	}
}

// FuzzDecode expects the same check or error for all bytes. One service decodes all inputs, so
// memory that requests share must not hold anything of earlier requests.
func FuzzDecode(f *testing.F) {
	for _, wire := range encodedRequests() {
		f.Add([]byte(wire))
	}
	decider := &expecting{}
	service := newWired(envoyrls.New(envoyrls.Options{Engine: decider}))
	f.Fuzz(func(t *testing.T, wire []byte) { expectDecoded(t, service, decider, wire) })
}

// randomDecision returns any decision that the engine could make, and some that it could not.
func randomDecision(random *rand.Rand) *limiter.Decision {
	pick := func(values ...int64) int64 { return values[random.IntN(len(values))] }
	windows := []time.Duration{0, time.Millisecond, time.Second, 90 * time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, plan.MaxWindow}
	calendars := []*plan.Calendar{nil, nil, nil, nil, {Period: plan.PeriodHour}, {Period: plan.PeriodDay}, {Period: plan.PeriodWeek}, {Period: plan.PeriodMonth}}
	d := &limiter.Decision{
		Allowed: random.IntN(2) == 0, Reason: limiter.ReasonLimitExceeded, Policy: "shop/login",
		Denial:     plan.Denial{Code: "Slow", Message: strings.Repeat("Slow down. ", random.IntN(200))},
		RetryAfter: time.Duration(pick(-1, 0, 1, int64(time.Hour))),
		Degraded:   plan.FailureMode([]string{"", "", "Open"}[random.IntN(3)]),
	}
	for range random.IntN(5) {
		d.Limits = append(d.Limits, limiter.LimitState{
			Policy: "shop/" + strings.Repeat("a", int(pick(0, 1, 100, 120, 130, 300))), Limit: "l", Allowed: random.IntN(2) == 0, Blocked: random.IntN(4) == 0,
			Remaining: pick(0, 1, 127, 128, math.MaxUint32, math.MaxUint32+1, plan.MaxCost), Quota: pick(0, 1, plan.MaxCost),
			Threshold: pick(1, 7, plan.MaxThreshold, plan.MaxCost), Algorithm: []plan.Algorithm{plan.FixedWindow, plan.TokenBucket, plan.GCRA}[random.IntN(3)],
			Window: windows[random.IntN(len(windows))], Calendar: calendars[random.IntN(len(calendars))], ResetAfter: time.Duration(pick(-int64(time.Hour), 0, 1, int64(time.Minute), int64(plan.MaxWindow))),
		})
	}
	for range random.IntN(5) {
		state := limiter.DescriptorState{Allowed: random.IntN(2) == 0, RetryAfter: time.Duration(pick(-1, 0, 0, 1, int64(time.Hour)))}
		if n := len(d.Limits); n > 0 && random.IntN(4) > 0 {
			state.Tightest = &d.Limits[random.IntN(n)]
		}
		d.Descriptors = append(d.Descriptors, state)
	}
	return d
}

func TestResponsesAreEncodedAsTheGeneratedCodeDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	wire := []byte(encodedRequests()["one descriptor"])
	for range 5000 {
		g := NewWithT(t)
		decision, legacy := randomDecision(random), random.IntN(2) == 0
		service := newWired(envoyrls.New(envoyrls.Options{Engine: fixedDecider{decision}, Frontend: limiter.FrontendOptions{LegacyHeaders: legacy}}))
		encoded, err := service.call(t.Context(), wire)
		g.Expect(err).NotTo(HaveOccurred())
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(responseOf(decision, legacy))
		g.Expect(err).NotTo(HaveOccurred())
		got, sent := &ratelimitv3.RateLimitResponse{}, encoded.Materialize()
		g.Expect(proto.Unmarshal(sent, got)).To(Succeed())
		g.Expect(proto.Equal(got, responseOf(decision, legacy))).To(BeTrue())
		g.Expect(sent).To(HaveLen(len(want)), "defaults are left out and lengths are short")
		encoded.Free()
	}
}

func TestServiceIsDescribedAsTheGeneratedOne(t *testing.T) {
	g := NewWithT(t)
	service := newWired(envoyrls.New(envoyrls.Options{}))
	got, want := service.description, ratelimitv3.RateLimitService_ServiceDesc
	g.Expect([]any{got.ServiceName, got.Metadata}).To(Equal([]any{want.ServiceName, want.Metadata}))
	g.Expect(got.Methods).To(HaveLen(len(want.Methods)))
	g.Expect(got.Methods[0].MethodName).To(Equal(want.Methods[0].MethodName))
}

func TestInterceptorsRun(t *testing.T) {
	g := NewWithT(t)
	d := newFrontend(t, makePlan("user", []string{"user"}, fixed("l", 5, time.Minute)))
	var methods []string
	d.interceptor = func(ctx context.Context, message any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		methods = append(methods, info.FullMethod)
		return handle(ctx, message)
	}
	g.Expect(d.send(request(descriptor("user=a"))).GetOverallCode()).To(Equal(ok))
	g.Expect(methods).To(Equal([]string{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName}))
}

// keeping is a Decider that keeps the last check, as a store may whose call is in flight.
type keeping struct {
	check    *limiter.Check
	decision *limiter.Decision
	err      error
}

func (k *keeping) Decide(_ context.Context, check *limiter.Check) (*limiter.Decision, error) {
	k.check = check
	return k.decision, k.err
}

func TestCheckInFlightIsNotReused(t *testing.T) {
	user, other := request(descriptor("user=a", hits(2), limit(3, 2))), request(descriptor("other=b", limit(9, 1)))
	want, err := checkOf(user)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, decider := range map[string]*keeping{
		"failed":   {err: context.DeadlineExceeded},
		"degraded": {decision: &limiter.Decision{Allowed: true, Degraded: plan.FailOpen}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			service := newWired(envoyrls.New(envoyrls.Options{Engine: decider}))
			for range 100 {
				_, err := service.ShouldRateLimit(t.Context(), user)
				g.Expect(err == nil).To(Equal(decider.err == nil))
				kept := decider.check
				_, _ = service.ShouldRateLimit(t.Context(), other)
				g.Expect(withoutMemory(kept)).To(Equal(want))
			}
		})
	}
}
