// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
)

func TestEmptyOverviewExplainsItself(t *testing.T) {
	g := NewWithT(t)
	s := start(t, func(o *endpoint.Options) {
		o.Authorizer, o.ConsoleGuests, o.HTTPAddress = nil, true, "127.0.0.1:0"
	})
	b := s.browser()
	b.open("/")
	g.Expect(b.status).To(Equal(http.StatusOK), "/ leads to the console")
	g.Expect(b.page).To(And(ContainSubstring("Nothing was decided yet."), ContainSubstring("http://"+s.e.HTTP.Addr()+"/v1/check"), ContainSubstring("bank/vault")))

	s.e.Use(index.NewSnapshot(8, nil))
	g.Eventually(func() string { // the list of policies may be a second old
		b.open("/console/")
		return b.page
	}, "30s").Should(ContainSubstring("no policy is in force. Add a policy to a folder of <code>--policies</code>."))
}

func TestFirstDecisionShowsWithinASecond(t *testing.T) {
	g := NewWithT(t)
	s := start(t, func(o *endpoint.Options) { o.Authorizer, o.ConsoleGuests = nil, true })
	b := s.browser()
	b.open("/console/")
	g.Expect(b.page).To(ContainSubstring("Nothing was decided yet."))
	s.exhaust("shop/login", "bob")
	g.Eventually(func() string { b.open("/console/"); return b.page }, "30s").Should(And(
		Not(ContainSubstring("Nothing was decided yet.")), ContainSubstring("2 allowed, 3 denied"), ContainSubstring(`<code class="part">bob</code>`)))
}
