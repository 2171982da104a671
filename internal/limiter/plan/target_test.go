// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testplan"
)

func TestParseTarget(t *testing.T) {
	longest := strings.Repeat("a", 253)
	for _, text := range []string{
		"HTTPRoute/shop/checkout", "GRPCRoute/shop/orders", "Gateway/infra/public", "Gateway/infra/public/https", "HTTPRoute/a/b.c/d-e",
		"HTTPRoute/" + longest + "/" + longest + "/" + longest,
	} {
		g := NewWithT(t)
		target, err := plan.ParseTarget(text)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(plan.NewTarget(target.Split())).To(Equal(target))
	}
	for _, text := range []string{
		"", "/", "shop/checkout", "HTTPRoute", "HTTPRoute/shop", "HTTPRoute//checkout", "HTTPRoute/shop/", "HTTPRoute/shop/checkout/",
		"HTTPRoute/shop/checkout//", "HTTPRoute/shop/checkout/a/b", "httproute/shop/checkout", "Service/shop/checkout",
		"HTTPRoute/Shop/checkout", "HTTPRoute/shop/check out", " HTTPRoute/shop/checkout", "HTTPRoute/shop/checkout/a:b",
		"HTTPRoute/shop/" + longest + "a",
	} {
		_, err := plan.ParseTarget(text)
		NewWithT(t).Expect(err).To(MatchError(plan.TargetForm), text)
	}
}

func TestTargetsAreDecoded(t *testing.T) {
	g := NewWithT(t)
	p := testplan.Valid()
	p.Matches = []plan.Match{{Hosts: []string{"shop.example"}, Targets: []plan.Target{"HTTPRoute/shop/checkout"}}}
	encoded, err := plan.Encode(p)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Decode(encoded)).To(Equal(p))
}
