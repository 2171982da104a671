// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"strconv"
	"testing"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/storetest"
)

// A check of a key costs the same whether one or 50,000 charges of the key are remembered.
func BenchmarkCheckBesideCharges(b *testing.B) {
	for _, charges := range []int{1, 10_000, 50_000} {
		b.Run(strconv.Itoa(charges), func(b *testing.B) {
			s, p := memory.NewStore(memory.Options{Keys: 10}), policyOf("p", storetest.SlowLimit(store.FixedWindow, 5))
			evaluate := func(e store.Entry) {
				e.Policy, e.Key, e.Cost = p, "a", 1
				_, err := s.Evaluate(b.Context(), &store.Call{Entries: []store.Entry{e}})
				if err != nil {
					b.Fatal(err)
				}
			}
			for i := range charges {
				evaluate(store.Entry{Action: store.Charge, ID: strconv.Itoa(i)})
			}
			for b.Loop() {
				evaluate(store.Entry{})
			}
		})
	}
}
