// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Every frontend that knows the path reads the query in the same way.
func TestFrontendsReadTheQuery(t *testing.T) {
	policy := loginPlan(func(p *plan.Plan) {
		p.Matches = p.Matches[:1]
		p.Matches[0].QueryParameters = []plan.Entry{{Key: "tier", Value: "free"}}
		p.Matches[0].Headers = []plan.Entry{{Key: "x-user", Value: "dave"}}
		p.Key = []plan.KeyPart{{Type: plan.KeyQueryParameter, QueryParameter: "account"}}
	})
	for name, tc := range map[string]struct {
		query, user string
		allowed     int // of five requests
		reason      string
	}{
		"the parameters":       {"?tier=free&account=alice&", "dave", 3, "LimitExceeded"},
		"a repeated header":    {"?tier=free&account=alice&", "bob, dave", 3, "LimitExceeded"},
		"another header":       {"?tier=free&account=alice&", "dave2", 5, ""},
		"another tier":         {"?tier=gold&account=alice&", "dave", 5, ""},
		"a repeated account":   {"?tier=free&account=alice&account=bob&", "dave", 0, "MissingKey"},
		"too many parameters":  {"?tier=gold&account=alice" + strings.Repeat("&", plan.MaxReadValues), "dave", 0, "MissingKey"},
		"a tier of many":       {"?tier=gold&tier=free&account=alice&", "dave", 3, "LimitExceeded"},
		"no account, a budget": {"?tier=free&", "dave", 3, "LimitExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, frontend := range []string{"check", "authorize", "ext_authz"} {
				g := NewWithT(t)
				f := newFixture(t, nil, policy)
				f.longer = tc.query
				for i := range 5 {
					answer := f.frontends[frontend](g, tc.user)
					g.Expect(answer.Allowed).To(Equal(i < tc.allowed), "request %d at %s", i, frontend)
					if !answer.Allowed {
						g.Expect(answer.Body.Reason).To(Equal(tc.reason), frontend)
					}
				}
			}
		})
	}
}
