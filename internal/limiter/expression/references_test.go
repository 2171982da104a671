// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/expression"
)

func TestReferences(t *testing.T) {
	type refs = []expression.Reference
	for text, want := range map[string]refs{
		`true`: nil,
		`request.path.startsWith("/a") && request.path != "/b"`:       {{Variable: "request.path"}},
		`request.headers["x-a"] == "1" || "x-b" in request.headers`:   {{Variable: "request.headers", Member: "x-a"}, {Variable: "request.headers", Member: "x-b"}},
		`has(descriptor.plan) && request.headers.exists(h, h == "x")`: {{Variable: "descriptor", Member: "plan"}, {Variable: "request.headers"}},
		`request.query.q == claims.jwt.sub + claims["x"]["y"]`:        {{Variable: "request.query", Member: "q"}, {Variable: "claims", Member: "jwt.sub"}, {Variable: "claims", Member: "x.y"}},
		`request.headers[principal] == remoteAddress`:                 {{Variable: "request.headers"}, {Variable: "principal"}, {Variable: "remoteAddress"}},
		`["request.host"].exists(domain, domain == request.method)`:   {{Variable: "request.method"}},
		`request.domain == "edge" && size(descriptor) == 2`:           {{Variable: "request.domain"}, {Variable: "descriptor"}},
	} {
		g := NewWithT(t)
		got, err := expression.References(text)
		g.Expect(err).NotTo(HaveOccurred(), text)
		g.Expect(got).To(Equal(want), text)
	}
	_, err := expression.References("nonesuch")
	NewWithT(t).Expect(err).To(HaveOccurred())
}
