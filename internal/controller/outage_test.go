// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Events on the Lease", func() {
	fail := func(r *registry) { r.unreachable = true }

	It("come from the leader only", func(ctx SpecContext) {
		i := install(ctx, outageDelay, 0)
		i.plans.change(fail)
		Consistently(eventsOnLease(i.namespace)).WithContext(ctx).WithTimeout(2 * outageDelay).Should(BeEmpty())
	})

	It("report an outage that has lasted in one term", func(ctx SpecContext) {
		i := install(ctx, outageDelay, 0)
		resign := leadEmpty(ctx, i.terms, i.plans)
		for range 2 { // when the controller receives the second signal, it has handled the first
			i.plans.change(fail)
			Eventually(ctx, i.plans.Changes).Should(BeEmpty())
		}
		resign()
		Consistently(eventsOnLease(i.namespace)).WithContext(ctx).WithTimeout(2 * outageDelay).Should(BeEmpty())
		began := time.Now()
		lead(i.terms)
		Eventually(eventsOnLease(i.namespace)).WithContext(ctx).Should(Equal([]string{"RegistryUnreachable"}))
		Expect(time.Since(began)).To(BeNumerically(">=", outageDelay))
	})
})
