// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// indent indents the lines of a block for an entry of a list in the static resources.
func indent(block string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n    ") + "\n"
}

// ownHeaders makes Envoy add X-RateLimit headers of its own.
func ownHeaders() (pair []string) {
	const before = "              failure_mode_deny: false\n"
	return []string{before, before + "              enable_x_ratelimit_headers: DRAFT_VERSION_03\n"}
}

func TestEnvoyRateLimit(t *testing.T) {
	page := blocks(t, "envoy.md")
	w := newWorld(t, page[3])
	startEnvoy(t, w, w.printed(t, page[2], ownHeaders()...))
	g, url, client := NewWithT(t), "http://"+w.proxy+"/cart?page=2", clientFrom(t, "127.0.0.2")
	for range 3 {
		a := get(t, client, url, "X-Api-Key", "k")
		g.Expect(a.status).To(Equal(http.StatusOK), a.body)
		g.Expect(a.body).To(Equal("GET /cart?page=2 for k"))
	}
	a := get(t, client, url, "X-Forwarded-For", "203.0.113.1")
	isDenied(t, a, "shop/edge-clients-burst", "shop/edge-clients")
	g.Expect(a.header.Values("X-Ratelimit-Limit")).To(Equal([]string{"3"}))
	g.Expect(a.header.Values("X-Ratelimit-Remaining")).To(Equal([]string{"0"}))
	g.Expect(a.header.Values("X-Ratelimit-Reset")).To(HaveExactElements(MatchRegexp(`^([1-9]|10)$`)))

	a = get(t, clientFrom(t, "127.0.0.3"), url, "X-User-Id", "alice")
	g.Expect(a.status).To(Equal(http.StatusOK))
	g.Expect(a.header.Values("RateLimit")).To(HaveExactElements(MatchRegexp(`^"shop/edge-clients-burst";r=2;t=10, "shop/edge-writes-minute";r=299;t=6[01]$`)))
	g.Expect(a.header.Values("X-Ratelimit-Limit")).To(HaveExactElements(`3, 300;w=60;name="shop/edge-writes-minute"`))
	g.Expect(a.header.Values("X-Ratelimit-Remaining")).To(HaveExactElements("2"))
	a = get(t, clientFrom(t, "127.0.0.4"), url, "X-User-Id", "alice", "X-Plan", "internal")
	g.Expect(a.header.Get("RateLimit")).NotTo(ContainSubstring("edge-writes"), "its expression exempts that plan")
	a = get(t, clientFrom(t, "127.0.0.5"), url, "X-User-Id", "alice", "X-Plan", "gold")
	g.Expect(a.header.Get("RateLimit")).To(ContainSubstring(`"shop/edge-writes-minute";r=298;`))
}

// The filter adds headers beside equal ones of the upstream and of its own.
func TestEnvoyRateLimitAddsHeaders(t *testing.T) {
	page := blocks(t, "envoy.md")
	w := newWorldWith(t, []string{"--legacy-headers"}, page[3])
	startLimitedUpstream(t, w)
	startEnvoy(t, w, w.printed(t, page[2], ownHeaders()...))
	g := NewWithT(t)
	a := get(t, clientFrom(t, "127.0.0.2"), "http://"+w.proxy+"/")
	g.Expect(a.header.Values("RateLimit")).To(ConsistOf(`"upstream";r=9`, `"shop/edge-clients-burst";r=2;t=10`))
	g.Expect(a.header.Values("X-Ratelimit-Limit")).To(Equal([]string{"3", "3"}), "by Weir and by Envoy")
}

// patch is one of the patches of an EnvoyFilter.
type patch struct {
	ApplyTo string `json:"applyTo"`
	Patch   struct {
		Value map[string]any `json:"value"`
	} `json:"patch"`
}

// istioPatches returns the patches of the page by the part of the configuration to which they apply.
func istioPatches(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, text := range blocks(t, "istio.md") {
		var filter struct {
			Kind string `json:"kind"`
			Spec struct {
				ConfigPatches []patch `json:"configPatches"`
			} `json:"spec"`
		}
		NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &filter)).To(Succeed())
		if filter.Kind == "EnvoyFilter" {
			for _, p := range filter.Spec.ConfigPatches {
				all[p.ApplyTo] = p.Patch.Value
			}
		}
	}
	return all
}

// at returns the value in a tree of maps, and of lists with one or the first element.
func at[T any](tree any, path ...string) T {
	for _, name := range path {
		if list, ok := tree.([]any); ok {
			tree = list[0]
		}
		tree = tree.(map[string]any)[name]
	}
	return tree.(T)
}

// Envoy accepts the patches that Istio passes to it, in the places where Istio puts them.
func TestIstioPatches(t *testing.T) {
	g, page, patches := NewWithT(t), blocks(t, "envoy.md"), istioPatches(t)
	g.Expect(patches).To(And(HaveLen(2), HaveKey("HTTP_FILTER"), HaveKey("VIRTUAL_HOST")))
	w := newWorld(t, page[3])
	const cluster = "outbound|8081||weir.weir-system.svc.cluster.local"
	config := map[string]any{}
	g.Expect(yaml.Unmarshal([]byte(w.printed(t, page[2], "name: weir\n", "name: "+cluster+"\n")), &config)).To(Succeed())
	manager := at[map[string]any](config, "static_resources", "listeners", "filter_chains", "filters", "typed_config")
	filters := manager["http_filters"].([]any)
	manager["http_filters"] = append([]any{patches["HTTP_FILTER"]}, filters[1:]...)
	host := at[[]any](manager, "route_config", "virtual_hosts")[0].(map[string]any)
	delete(at[map[string]any](host, "routes", "route"), "rate_limits")
	host["rate_limits"] = patches["VIRTUAL_HOST"]["rate_limits"]
	text, err := yaml.Marshal(config)
	g.Expect(err).NotTo(HaveOccurred())
	startEnvoy(t, w, string(text))

	url, client := "http://"+w.proxy+"/", clientFrom(t, "127.0.0.2")
	a := get(t, client, url, "X-User-Id", "alice")
	g.Expect(a.status).To(Equal(http.StatusOK))
	g.Expect(a.header.Get("RateLimit")).To(And(ContainSubstring("edge-clients-burst"), ContainSubstring("edge-writes-minute")))
	for range 2 {
		g.Expect(get(t, client, url).status).To(Equal(http.StatusOK))
	}
	isDenied(t, get(t, client, url), "shop/edge-clients-burst", "shop/edge-clients")
}

// A client of HTTP/2 can put spaces around the value of a header, which servers remove. It has one budget.
func TestSpacesMakeNoBudget(t *testing.T) {
	page := blocks(t, "envoy.md")
	w := newWorld(t, page[3])
	startEnvoy(t, w, w.printed(t, page[2]))
	for i, user := range []string{"alice", " alice", "alice  "} {
		client := clientFrom(t, fmt.Sprintf("127.0.0.%d", 2+i))
		client.Transport.(*http.Transport).Protocols = &http.Protocols{}
		client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
		a := get(t, client, "http://"+w.proxy+"/cart", "X-User-Id", user)
		NewWithT(t).Expect(a.header.Get("RateLimit")).To(ContainSubstring(fmt.Sprintf(`"shop/edge-writes-minute";r=%d;`, 299-i)), "%q", user)
	}
}
