// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"net/http"
	"net/url"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
)

// reason decides a check of the key under shop/search, of which a /64 has the key.
func (s *site) reason(key string) limiter.Reason {
	s.t.Helper()
	d, err := s.e.Decide(s.t.Context(), &limiter.Check{Policies: []string{"shop/search"}, Key: []string{key}, Cost: 1})
	NewWithT(s.t).Expect(err).NotTo(HaveOccurred())
	return d.Reason
}

// The form opens the network of an address, and the buttons of its page change that network.
func TestFormOpensTheNetworkOfAnAddress(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.logIn("operator")
	b.open("/console/policy?policy=shop/search")
	b.submit("/console/key", url.Values{"policy": {"shop/search"}, "key": {"2001:db8::1"}})
	g.Expect(b.status).To(Equal(http.StatusOK))
	g.Expect(b.page).To(And(ContainSubstring("The policy counts this network as one client"),
		ContainSubstring(`<code class="part">2001:db8::/64</code>`), ContainSubstring(`name="key" value="2001:db8::/64"`)))
	b.submit("/console/change", url.Values{
		"policy": {"shop/search"}, "key": {"2001:db8::1"}, "action": {"block"}, "duration": {"10m"},
	})
	g.Expect(b.page).To(And(ContainSubstring("The key is blocked."), ContainSubstring("<b>Blocked</b>")))
	g.Expect(s.reason("2001:db8::/64")).To(Equal(limiter.ReasonBlocked))
}

func TestFormRejectsAKeyOfNoRequest(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.logIn("operator")
	for _, form := range []url.Values{
		{"policy": {"shop/search"}, "key": {"not-an-address"}},
		{"policy": {"shop/search"}, "key": {"not-an-address"}, "action": {"block"}, "duration": {"10m"}},
	} {
		b.open("/console/policy?policy=shop/search")
		path := "/console/key"
		if form.Has("action") {
			path = "/console/change"
		}
		b.submit(path, form)
		g.Expect(b.status).To(Equal(http.StatusBadRequest))
		g.Expect(b.page).To(MatchRegexp(`>key\[0\]: must be an IP address`), "the field is named once")
	}
	b.open("/console/policy?policy=shop/search")
	g.Expect(b.page).To(ContainSubstring(`type="checkbox" name="asGiven"`))
	given := url.Values{"policy": {"shop/search"}, "key": {"not-an-address"}, "asGiven": {"true"}}
	b.submit("/console/key", given)
	g.Expect(b.status).To(Equal(http.StatusOK))
	g.Expect(b.page).To(ContainSubstring(`name="asGiven" value="true"`), "its buttons change that key")
	given.Set("action", "block")
	given.Set("duration", "10m")
	given.Del("csrf")
	b.submit("/console/change", given)
	g.Expect(b.page).To(ContainSubstring("The key is blocked."))
	g.Expect(s.reason("not-an-address")).To(Equal(limiter.ReasonBlocked))
}
