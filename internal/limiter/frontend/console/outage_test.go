// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/test/testenv"
)

// While Redis does not answer, pages show what does not need it.
func TestWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	client, err := redisclient.New("redis://"+testenv.FreeAddr(t), 50*time.Millisecond)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	s := start(t, func(o *endpoint.Options) { o.Redis, o.StoreTimeout = client, 50*time.Millisecond })
	b := s.logIn("operator")
	for path, want := range map[string]string{
		"/console/":                         "does not answer",
		"/console/policies":                 "shop/login",
		"/console/policy?policy=shop/login": "Redis cannot be reached at the moment.",
		"/console/try":                      "Try a request",
	} {
		b.open(path)
		g.Expect(b.status).To(Equal(http.StatusOK), path)
		g.Expect(b.page).To(ContainSubstring(want), path)
	}
	b.open("/console/key?policy=shop/login&key=bob")
	g.Expect(b.status).To(Equal(http.StatusServiceUnavailable))
	g.Expect(b.page).To(ContainSubstring("No answer at the moment"))
	b.open("/console/try")
	b.submit("/console/change", url.Values{"policy": {"shop/login"}, "key": {"bob"}, "action": {"reset"}})
	g.Expect(b.status).To(Equal(http.StatusServiceUnavailable))
}
