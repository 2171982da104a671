// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
)

// What clients send adds no series, so that a flood cannot fill the memory of replicas and of Prometheus.
func TestClientsAddNoSeries(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	f := newFixture(t, func(o *endpoint.Options) { o.Registry = registry }, readingPlans()...)
	series := func() (n int) {
		families, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			n += len(family.GetMetric())
		}
		return n
	}
	flood := func(from, to int) {
		for n := from; n < to; n++ {
			for _, send := range f.frontends {
				send(g, fmt.Sprint("user-", n%3)) // some are denied
				send(g, fmt.Sprint("invented-", n))
			}
			r, err := http.NewRequest(http.MethodPost, "http://"+f.HTTP.Addr()+fmt.Sprint("/v1/check?x=", n), strings.NewReader(
				fmt.Sprintf(`{"attributes":{"method":"M%d","host":"h%[1]d.example","path":"/%[1]d","headers":{"user-agent":"%s"}}}`, n, strings.Repeat("e", 5000*(n%3)))))
			g.Expect(err).NotTo(HaveOccurred())
			f.send(g, r)
		}
	}
	flood(0, 9)
	before := series()
	flood(9, 60)
	g.Expect(before).To(BeNumerically(">", 10))
	g.Expect(series()).To(Equal(before))
}
