// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

func TestStandaloneStartsWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	server.Stop()
	address := testenv.FreeAddr(t)
	p := startStandalone(t, "--policies", "../../config/samples", "--redis-url", server.URL, "--store-timeout", "30s", "--metrics-address", address)
	g.Eventually(p.Logged("Redis is unavailable")).Should(Equal(1))
	g.Eventually(process.MetricLines(address)).Should(ContainElement("weir_redis_up 0"))
	g.Expect(p.Status("/readyz")).To(Equal(http.StatusOK), "it has its policies")
	check := func() (int, error) {
		status, _, err := p.Check(`{"policies":["shop/login"],"key":"alice"}`)
		return status, err
	}
	g.Expect(check()).To(Equal(http.StatusServiceUnavailable), "failureMode Closed")
	server.Start()
	g.Eventually(check).Should(Equal(http.StatusOK))
	g.Eventually(process.MetricLines(address)).Should(ContainElements("weir_redis_up 1",
		`weir_store_breaker_open{node="`+server.Addr+`"} 0`, `weir_store_queue_length{node="`+server.Addr+`"} 0`))
}
