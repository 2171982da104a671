// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/test/testenv"
)

// anyone is an Authorizer that permits everything.
type anyone struct{}

func (anyone) Authorize(context.Context, string, httpapi.Verb, string, string) (httpapi.Caller, error) {
	return httpapi.Caller{User: "anyone"}, nil
}

// list decodes the answer of a call of an operator.
func (r *running) list(t *testing.T, path string, into any) {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.HTTP.Addr()+path, nil)
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer token")
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	g.Expect(json.NewDecoder(response.Body).Decode(into)).To(Succeed())
}

// Two processes with one Redis answer for both, from the first look on, and every block that a limit
// begins is listed; so it is without Redis.
func TestDeniedAndBlockedKeysAreListed(t *testing.T) {
	files := map[string]string{"a.yaml": `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: a, namespace: shop}
spec:
  key: [{type: Principal, principal: {}}]
  limits: [{name: l, algorithm: FixedWindow, threshold: 2, window: 1h, blockDuration: 10m}]
`}
	for name, processes := range map[string]int{"on Redis": 2, "in memory": 1} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			url := ""
			if processes > 1 {
				url = testenv.StartRedis(t).URL
			}
			var all []*running
			for range processes {
				r := start(t, url, files)
				r.options.Replicas = processes
				all = append(all, r)
			}
			for range 3 {
				for _, r := range all {
					r.check("a")
					r.check("a")
				}
			}
			denied := 6*processes - 2
			began := time.Now()
			var top struct {
				Policies []struct {
					Keys []struct {
						Key          []string
						Count, Error int
					}
				}
				Reported, Missing []string
			}
			all[0].list(t, "/v1/top?policy=shop/a", &top)
			g.Expect(time.Since(began)).To(BeNumerically("<", 30*time.Second))
			g.Expect(top.Reported).To(HaveLen(processes))
			g.Expect(top.Missing).To(BeEmpty())
			g.Expect(top.Policies).To(HaveLen(1))
			g.Expect(top.Policies[0].Keys).To(HaveLen(1))
			g.Expect(top.Policies[0].Keys[0].Key).To(Equal([]string{"alice"}))
			g.Expect(top.Policies[0].Keys[0].Count).To(Equal(denied))
			for _, r := range all {
				g.Eventually(func() int {
					var list struct {
						Blocks []struct{ Limit string }
					}
					r.list(t, "/v1/blocks?namespace=shop", &list)
					for _, b := range list.Blocks {
						g.Expect(b.Limit).To(Equal("l"))
					}
					return len(list.Blocks)
				}, "30s").Should(Equal(1))
			}
		})
	}
}
