// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/backtest"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// A log does not contain when requests end.
func TestCostsByOutcomeAreRejected(t *testing.T) {
	logins := testpolicy.Make("shop/logins").Reservations("1m", 10).Limit("failures", v1alpha1.AlgorithmSlidingLog, 5, "1m").Obj()
	logins.Spec.Reservations.Cost.CEL = "response.code == 401 ? 1 : 0"
	_, err := backtest.Compile([]*v1alpha1.RateLimitPolicy{logins})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("policy shop/logins: spec.reservations.cost cannot be replayed")))
}

// It does not contain how many are in flight, either.
func TestConcurrencyIsRejected(t *testing.T) {
	calls := testpolicy.Make("shop/calls").Reservations("1m", 10).
		Limit("rate", v1alpha1.AlgorithmFixedWindow, 5, "1m").Limit("inflight", v1alpha1.AlgorithmConcurrency, 5, "")
	_, err := backtest.Compile([]*v1alpha1.RateLimitPolicy{calls.Obj()})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("policy shop/calls: spec.limits[1].algorithm: Concurrency cannot be replayed")))
}
