// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// isDenied checks a denial: 429 with the headers and the document of Weir, each once.
func isDenied(t *testing.T, a answer, limit, policy string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(a.status).To(Equal(http.StatusTooManyRequests), a.body)
	g.Expect(a.header.Values("Retry-After")).To(HaveExactElements(MatchRegexp(`^([1-9]|10)$`)))
	g.Expect(a.header.Values("RateLimit")).To(HaveExactElements(MatchRegexp(`^"` + limit + `";r=0;t=([1-9]|10)$`)))
	g.Expect(a.header.Values("RateLimit-Policy")).To(HaveExactElements(`"` + limit + `";q=3;w=10`))
	g.Expect(a.header.Values("Content-Type")).To(HaveExactElements("application/problem+json"))
	g.Expect(a.body).To(And(ContainSubstring(`"policy":"`+policy+`"`), ContainSubstring(`"status":429`)))
}

func TestEnvoyExtAuthz(t *testing.T) {
	page := blocks(t, "envoy.md")
	w := newWorld(t, page[1])
	startEnvoy(t, w, w.printed(t, page[0]))
	g, url, client := NewWithT(t), "http://"+w.proxy+"/cart?page=2", clientFrom(t, "127.0.0.2")
	for i := range 3 {
		a := get(t, client, url, "Host", "shop.example", "X-Api-Key", "k")
		g.Expect(a.status).To(Equal(http.StatusOK), a.body)
		g.Expect(a.body).To(Equal("GET /cart?page=2 for k"))
		g.Expect(a.header.Values("RateLimit")).To(HaveExactElements(MatchRegexp(fmt.Sprintf(`^"shop/shop-clients-burst";r=%d;t=([1-9]|10)$`, 2-i))))
	}
	for _, headers := range [][]string{
		{"Host", "shop.example"},
		{"Host", "shop.example", "X-Forwarded-For", "203.0.113.1"},
		{"Host", "shop.example", "X-Forwarded-For", "203.0.113.1, 127.0.0.1"},
		{"Host", "shop.example", "X-Real-IP", "203.0.113.1", "X-Envoy-External-Address", "203.0.113.1"},
		{"Host", "shop.example", "X-Forwarded-Host", "other.example", "X-Original-URI", "/else", "X-Envoy-Original-Path", "/else"},
	} {
		isDenied(t, get(t, client, url, headers...), "shop/shop-clients-burst", "shop/shop-clients")
	}
	g.Expect(get(t, client, "http://"+w.proxy+"/healthz", "Host", "shop.example").status).To(Equal(http.StatusOK), "its route is exempt")
	other := get(t, client, url, "Host", "other.example")
	g.Expect(other.status).To(Equal(http.StatusOK), "no policy matches this host")
	g.Expect(other.header).NotTo(HaveKey("Ratelimit"))
	g.Expect(get(t, clientFrom(t, "127.0.0.3"), url, "Host", "shop.example").status).To(Equal(http.StatusOK), "another client")
}

// Headers of Weir replace the headers of the upstream with the same names.
func TestEnvoyExtAuthzReplacesHeadersOfTheUpstream(t *testing.T) {
	page := blocks(t, "envoy.md")
	w := newWorld(t, page[1])
	startLimitedUpstream(t, w)
	startEnvoy(t, w, w.printed(t, page[0]))
	client := clientFrom(t, "127.0.0.2")
	for host, want := range map[string]string{"shop.example": `^"shop/shop-clients-burst";r=2;t=10$`, "other.example": `^"upstream";r=9$`} {
		a := get(t, client, "http://"+w.proxy+"/", "Host", host)
		NewWithT(t).Expect(a.header.Values("RateLimit")).To(HaveExactElements(MatchRegexp(want)))
	}
}

// apiKeys is a policy for the host of the page whose key is a header.
const apiKeys = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: api-keys, namespace: shop}
spec:
  matches: [{hosts: [shop.example]}]
  key: [{type: Header, header: {name: X-Api-Key}}]
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 1, window: 1h}]
`

// Envoy joins repeated headers, unless it is configured as documented.
func TestEnvoyRepeatedHeaders(t *testing.T) {
	for setting, want := range map[string]int{"false": http.StatusOK, "true": http.StatusForbidden} {
		t.Run(setting, func(t *testing.T) {
			w := newWorld(t, apiKeys)
			startEnvoy(t, w, w.printed(t, blocks(t, "envoy.md")[0], "encode_raw_headers: true", "encode_raw_headers: "+setting))
			g, client := NewWithT(t), clientFrom(t, "127.0.0.2")
			once := func() int {
				return get(t, client, "http://"+w.proxy+"/", "Host", "shop.example", "X-Api-Key", "a").status
			}
			g.Expect([]int{once(), once()}).To(Equal([]int{http.StatusOK, http.StatusTooManyRequests}))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.proxy+"/", nil)
			g.Expect(err).NotTo(HaveOccurred())
			r.Host, r.Header["X-Api-Key"] = "shop.example", []string{"a", "b"}
			response, err := client.Do(r)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(response.StatusCode).To(Equal(want))
		})
	}
}

// withoutWeir returns the status through Envoy while nothing listens on the address of Weir.
func withoutWeir(t *testing.T, config string, pairs ...string) int {
	t.Helper()
	w := newWorld(t)
	w.grpc = testenv.FreeAddr(t)
	startEnvoy(t, w, w.printed(t, config, pairs...))
	return get(t, clientFrom(t, "127.0.0.2"), "http://"+w.proxy+"/", "Host", "shop.example").status
}

// The documented behavior of both filters while Weir is unreachable.
func TestEnvoyWithoutWeir(t *testing.T) {
	page := blocks(t, "envoy.md")
	for name, tc := range map[string]struct {
		config string
		pairs  []string
		want   int
	}{
		"ext_authz":              {page[0], nil, http.StatusOK},
		"ext_authz that denies":  {page[0], []string{"failure_mode_allow: true", "failure_mode_allow: false"}, http.StatusForbidden},
		"ratelimit":              {page[2], nil, http.StatusOK},
		"ratelimit that rejects": {page[2], []string{"failure_mode_deny: false", "failure_mode_deny: true"}, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(withoutWeir(t, tc.config, tc.pairs...)).To(Equal(tc.want))
		})
	}
}

// The documented transport socket connects by mTLS, and a server with another name is not called.
func TestEnvoyTransportSocket(t *testing.T) {
	page := blocks(t, "envoy.md")
	for name, want := range map[string]int{"weir.weir-system.svc": http.StatusTooManyRequests, "other.weir-system.svc": http.StatusOK} {
		t.Run(name, func(t *testing.T) {
			m := newMTLS(t, name)
			w := newWorldWith(t, m.flags, page[1])
			startEnvoy(t, w, w.printed(t, page[0], m.transport(t)...))
			client := clientFrom(t, "127.0.0.2")
			var last int
			for range 4 {
				last = get(t, client, "http://"+w.proxy+"/", "Host", "shop.example").status
			}
			NewWithT(t).Expect(last).To(Equal(want))
		})
	}
}
