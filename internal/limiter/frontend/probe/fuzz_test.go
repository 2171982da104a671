// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Whatever a client sends, the answer is JSON in ASCII that fits into a header.
func FuzzReport(f *testing.F) {
	f.Add("GET", "shop.example", "/login?a=b", "bob", "edge", "HTTPRoute/shop/shop")
	f.Add("\x00", "[::1]:80", "/%zz/../\xff", "\U0001F40C", "<>&\"\\", "")
	f.Fuzz(func(t *testing.T, method, host, path, principal, domain, target string) {
		g := NewWithT(t)
		p := newProber(&grantingStore{}, &clock{})
		text, ok := p.Answer(t.Context(), &Request{Codes: []string{newCode()}, Frontend: "test", Attributes: &plan.Attributes{
			Method: method, Host: host, Path: path, Principal: principal, Domain: domain, Targets: []plan.Target{plan.Target(target)},
		}})
		g.Expect(ok).To(BeTrue())
		g.Expect(len(text)).To(BeNumerically("<=", maxAnswer))
		g.Expect(text).To(MatchRegexp(`^[ -~]*$`))
		g.Expect(json.Unmarshal([]byte(text), &httptypes.ProbeReport{})).To(Succeed())
	})
}
