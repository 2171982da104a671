// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("weir standalone in a pod", func() {
	var asker *client
	var url, metrics string

	BeforeEach(func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		kubectl(ctx, "create", "configmap", "policies", "--namespace", namespace, "--from-file", root+"/config/samples")
		apply(ctx, namespace, "standalone.yaml", map[string]string{"image": weirImage})
		asker = newClient(ctx, namespace)
		rolledOut(ctx, namespace, "weir")
		url = "http://weir." + namespace + ".svc.cluster.local:8080"
		metrics = "http://weir." + namespace + ".svc.cluster.local:8082/metrics"
	}, NodeTimeout(5*time.Minute))

	It("allows three requests and denies the fourth", func(ctx SpecContext) {
		const alice = `{"policies": ["shop/burst"], "key": "alice"}`
		// The first request may be sent before every node knows the Service.
		var got answer
		Eventually(func() (err error) {
			got, err = asker.check(ctx, url, alice)
			return err
		}).WithContext(ctx).Should(Succeed())
		Expect(got.Status).To(Equal(http.StatusOK), got.Body)
		for range 2 {
			got, err := asker.check(ctx, url, alice)
			Expect(err).NotTo(HaveOccurred())
			Expect(got.Status).To(Equal(http.StatusOK), got.Body)
		}

		got, err := asker.check(ctx, url, alice)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Status).To(Equal(http.StatusTooManyRequests), got.Body)
		Expect(got.Headers.Get("Retry-After")).NotTo(BeEmpty())
		Expect(got.Headers.Get("Content-Type")).To(Equal("application/problem+json"))
	}, NodeTimeout(5*time.Minute))

	It("is exact under load", func(ctx SpecContext) {
		Eventually(func() error {
			_, err := asker.get(ctx, url+"/readyz")
			return err
		}).WithContext(ctx).Should(Succeed())

		// Three in any ten seconds.
		got, err := asker.load(ctx, url, `{"policies": ["shop/burst"], "key": "bob"}`, 100, 3*time.Second)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Errors).To(BeEmpty())
		Expect(got.Statuses).To(Equal(map[string]int{"200": 3, "429": got.Sent - 3}))
	}, NodeTimeout(5*time.Minute))

	It("reports its build", func(ctx SpecContext) {
		var got answer
		Eventually(func() (err error) {
			got, err = asker.get(ctx, metrics)
			return err
		}).WithContext(ctx).Should(Succeed())
		Expect(got.Body).To(MatchRegexp(`weir_build_info\{commit="[^"]+",date="[^"]+",goversion="go[^"]+",version="[^"]+"\} 1`))
	}, NodeTimeout(5*time.Minute))
})
