// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls_test

import (
	"math"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// FuzzShouldRateLimit sends every request that can be decoded, to policies whose match and key
// are expressions over it. An answer has a status for each descriptor. An error is always
// InvalidArgument, which is a fault in the configuration of the proxy.
func FuzzShouldRateLimit(f *testing.F) {
	for _, seed := range []*ratelimitv3.RateLimitRequest{
		{},
		request(descriptor("user=a")), request(descriptor("user=a path=/x", hits(0), limit(3, 2)), descriptor("")),
		{Domain: "edge", HitsAddend: math.MaxUint32, Descriptors: request(descriptor("user=a", hits(math.MaxUint64))).GetDescriptors()},
	} {
		wire, err := proto.Marshal(seed)
		NewWithT(f).Expect(err).NotTo(HaveOccurred())
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		g := NewWithT(t)
		r := &ratelimitv3.RateLimitRequest{}
		if proto.Unmarshal(wire, r) != nil {
			t.Skip()
		}
		expression := makePlan("expression", nil, fixed("l", 2, time.Minute))
		expression.Matches = []plan.Match{{When: `descriptor["user"].startsWith("a") || request.domain != ""`}}
		expression.Key = []plan.KeyPart{{Type: plan.KeyExpression, Expression: `descriptor["user"] + "/" + request.domain`}}
		d := newFrontend(t, makePlan("user", []string{"user"}, fixed("l", 2, time.Minute)), makePlan("domain", nil, fixed("l", 9, time.Hour)), expression)
		for range 2 {
			response, err := d.ShouldRateLimit(t.Context(), r)
			if err != nil {
				g.Expect(status.Code(err)).To(Equal(codes.InvalidArgument))
				continue
			}
			g.Expect(response.GetStatuses()).To(HaveLen(len(r.GetDescriptors())))
			worst := ok
			for _, s := range response.GetStatuses() {
				worst = max(worst, s.GetCode())
			}
			g.Expect(worst).To(Equal(response.GetOverallCode()), "the overall code is the code of the worst descriptor")
			_, err = proto.Marshal(response)
			g.Expect(err).NotTo(HaveOccurred())
		}
	})
}
