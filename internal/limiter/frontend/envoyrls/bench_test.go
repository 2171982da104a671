// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/envoyrls"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

// fixedDecider returns one decision for every check.
type fixedDecider struct{ decision *limiter.Decision }

func (f fixedDecider) Decide(context.Context, *limiter.Check) (*limiter.Decision, error) {
	return f.decision, nil
}

// decisionOf returns a decision about one descriptor and one limit.
func decisionOf(allowed bool) *limiter.Decision {
	d := &limiter.Decision{Allowed: allowed, Reason: limiter.ReasonAllowed, Revision: 7, Limits: []limiter.LimitState{{
		Policy: "shop/login", Limit: "burst", Algorithm: plan.FixedWindow, Allowed: allowed,
		Used: 3, Remaining: 97, Quota: 100, Threshold: 100, Window: time.Minute, ResetAfter: 41 * time.Second,
	}}}
	if l := &d.Limits[0]; !allowed {
		d.Reason, d.Policy, d.Limit, d.RetryAfter = limiter.ReasonLimitExceeded, l.Policy, l.Limit, 42*time.Second
		d.Denial = plan.Denial{Code: "Slow", Message: "Slow down."}
		l.Used, l.Remaining, l.RetryAfter = 100, 0, 42*time.Second
	}
	d.Descriptors = []limiter.DescriptorState{{Allowed: allowed, Tightest: &d.Limits[0], RetryAfter: d.RetryAfter}}
	return d
}

// BenchmarkShouldRateLimit reads, decides and answers one request with one descriptor of two
// entries. The decision is ready, so the rest is the cost of the frontend.
func BenchmarkShouldRateLimit(b *testing.B) {
	wire, err := proto.Marshal(request(descriptor("user=alice path=/v1/orders")))
	NewWithT(b).Expect(err).NotTo(HaveOccurred())
	for name, allowed := range map[string]bool{"Allowed": true, "Denied": false} {
		b.Run(name, func(b *testing.B) {
			service := newWired(envoyrls.New(envoyrls.Options{Engine: fixedDecider{decisionOf(allowed)}}))
			b.ReportAllocs()
			for b.Loop() {
				response, err := service.call(b.Context(), wire)
				if err != nil {
					b.Fatal(err)
				}
				response.Free()
			}
		})
	}
}

// A call needs one string for the request, and for the response the message and one string for
// all headers. Its bytes come from a pool.
func TestCallsAllocateLittle(t *testing.T) {
	g := NewWithT(t)
	wire, err := proto.Marshal(request(descriptor("user=alice path=/v1/orders")))
	g.Expect(err).NotTo(HaveOccurred())
	service := newWired(envoyrls.New(envoyrls.Options{Engine: fixedDecider{decisionOf(true)}}))
	decode := func(message any) error {
		return message.(interface{ UnmarshalWire(wire []byte) error }).UnmarshalWire(wire)
	}
	g.Expect(testenv.FewestAllocations(func() {
		var message any
		message, err = service.method(service.service, t.Context(), decode, nil)
		message.(interface{ MarshalWire() mem.BufferSlice }).MarshalWire().Free()
	})).To(BeNumerically("<=", 3))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = service.method(service.service, t.Context(), func(message any) error {
		g.Expect(testenv.FewestAllocations(func() { _ = decode(message) })).To(BeNumerically("<=", 1))
		return nil
	}, nil)
	g.Expect(err).NotTo(HaveOccurred())
}
