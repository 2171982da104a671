// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/cmd/kubectl-weir/gateways"
)

func TestProbeOfAWiredURL(t *testing.T) {
	g, s := NewWithT(t), start(t)
	out := s.succeed("probe", s.url+"/v1/authorize/login?a=b", "-H", "Host: shop.example", "-H", "X-Account: bob", "-X", "POST")
	g.Expect(out).To(MatchRegexp(`^Wired:               yes, by forward-auth
Replica:             \S+
Targets:             -
Request:             HEAD shop.example /login
Client address:      127.0.0.1
Principal:           -
Policies for POST:   shop/login
$`))
	g.Expect(s.succeed("state", "login", "bob", "127.0.0.1")).To(MatchRegexp(`burst   0 `), "nothing was spent")
	g.Expect(s.log.String()).To(And(MatchRegexp(`"msg":"Issued the code of a probe","user":"admin",.*"namespace":"shop"`), ContainSubstring(`"msg":"Answered a probe"`)))

	routed := s.url + "/v1/authorize?target=HTTPRoute/shop/shop/checkout"
	g.Expect(s.succeed("probe", routed, "--target", "HTTPRoute/shop/shop")).To(ContainSubstring("Targets:            HTTPRoute/shop/shop/checkout\n"))
	out, complaint := s.fail("probe", routed, "--target", "HTTPRoute/shop/shop", "--target", "Gateway/infra/public")
	g.Expect(out).To(HavePrefix("Wired:              yes"))
	g.Expect(complaint).To(Equal("error: wired, but Weir did not see Gateway/infra/public\n"))

	var result gateways.ProbeResult
	g.Expect(json.Unmarshal([]byte(s.succeed("probe", routed, "-A", "-o", "json")), &result)).To(Succeed())
	g.Expect(result.Wired).To(BeTrue())
	g.Expect(result.Status).To(Equal(http.StatusForbidden))
	g.Expect(result.Report.Frontend).To(Equal("forward-auth"))

	_, complaint = s.fail("probe", s.url+"/v1/authorize?deny=1")
	g.Expect(complaint).To(HavePrefix("error: wired, but Weir cannot decide these requests: deny: "))
}

func TestProbeOfAnotherURL(t *testing.T) {
	g, s := NewWithT(t), start(t)
	var requests atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, s.url+"/v1/authorize", http.StatusMovedPermanently)
		case "/claims":
			w.Header().Set("Weir-Probe", "yes")
		}
	}))
	t.Cleanup(upstream.Close)
	out, complaint := s.fail("probe", upstream.URL+"/")
	g.Expect(out).To(Equal("Wired:              no\nThe URL answered:   200 OK\n"))
	g.Expect(complaint).To(Equal("error: not wired: Weir did not answer this request\n"))
	g.Expect(requests.Load()).To(BeEquivalentTo(1))
	out, _ = s.fail("probe", upstream.URL+"/moved")
	g.Expect(out).To(Equal("Wired:              no\nThe URL answered:   301 Moved Permanently, to " + s.url + "/v1/authorize\n"))
	g.Expect(s.log.String()).NotTo(ContainSubstring("Answered a probe"), "no redirect is followed")
	_, complaint = s.fail("probe", upstream.URL+"/claims")
	g.Expect(complaint).To(HavePrefix("error: the answer in Weir-Probe is not one of Weir: "))
	out, _ = s.fail("probe", upstream.URL+"/", "-o", "json")
	g.Expect(out).To(MatchJSON(`{"url":"` + upstream.URL + `/","wired":false,"status":200}`))
	upstream.Close()
	_, complaint = s.fail("probe", upstream.URL)
	g.Expect(complaint).To(HavePrefix("error: the URL does not answer: "))
}

func TestProbeVerifiesCertificates(t *testing.T) {
	g, s := NewWithT(t), start(t)
	upstream := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	_, complaint := s.fail("probe", upstream.URL)
	g.Expect(complaint).To(ContainSubstring("certificate"))
	out, _ := s.fail("probe", upstream.URL, "--insecure")
	g.Expect(out).To(ContainSubstring("404 Not Found"))
}

func TestProbeRejectsArguments(t *testing.T) {
	for want, args := range map[string][]string{
		`URL "shop.example/login": must be a URL`:                  {"shop.example/login"},
		`URL "/login": must be a URL`:                              {"/login"},
		`-H "Host": must be a name and a value`:                    {"http://a", "-H", "Host"},
		`--target "HTTPRoute/shop": must be Gateway, HTTPRoute or`: {"http://a", "--target", "HTTPRoute/shop"},
		`-X "post": must be a method in capital letters`:           {"http://a", "-X", "post"},
		`-o "wide": must be json or yaml`:                          {"http://a", "-o", "wide"},
		"--address: needs --token-file":                            {"http://a", "--address", "http://127.0.0.1:1"},
	} {
		code, _, complaint := command(t, append([]string{"probe"}, args...)...)
		NewWithT(t).Expect(code).To(Equal(2), want)
		NewWithT(t).Expect(complaint).To(ContainSubstring(want))
	}
}
