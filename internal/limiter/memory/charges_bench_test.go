// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"strconv"
	"testing"

	"github.com/weir-dev/weir/internal/limiter/memory"
	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/test/storetest"
)

// A check of a key costs the same whether one or 50,000 charges of the key are remembered.
func BenchmarkCheckBesideCharges(b *testing.B) {
	for _, charges := range []int{1, 10_000, 50_000} {
		b.Run(strconv.Itoa(charges), func(b *testing.B) {
			s, p := memory.NewStore(memory.Options{Keys: 10}), policyOf("p", storetest.SlowLimit(quota.FixedWindow, 5))
			evaluate := func(e quota.Entry) {
				e.Policy, e.Key, e.Cost = p, "a", 1
				_, err := s.Evaluate(b.Context(), &quota.Call{Entries: []quota.Entry{e}})
				if err != nil {
					b.Fatal(err)
				}
			}
			for i := range charges {
				evaluate(quota.Entry{Action: quota.Charge, ID: strconv.Itoa(i)})
			}
			for b.Loop() {
				evaluate(quota.Entry{})
			}
		})
	}
}
