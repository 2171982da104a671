// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/testenv"
)

// BenchmarkLargestCall measures a call with as many policies and limits as a check may have: the run time of one of its
// scripts, during which Redis does nothing else.
func BenchmarkLargestCall(b *testing.B) {
	server := testenv.StartRedis(b)
	client := newClient(b, server.Addr)
	backend := newStore(client)
	mixed := []store.Algorithm{store.SlidingLog, store.SlidingWindow, store.TokenBucket, store.GCRA}
	for _, of := range append([][]store.Algorithm{mixed}, []store.Algorithm{store.FixedWindow}, mixed[:1], mixed[1:2], mixed[2:3], mixed[3:]) {
		b.Run(fmt.Sprint(of), func(b *testing.B) {
			call := &store.Call{}
			for i := range 128 {
				limits := make([]store.Limit, 4)
				for j := range limits {
					limits[j] = store.Limit{
						Name: fmt.Sprint("limit-", j), Algorithm: of[j%len(of)], Quota: 100_000, Threshold: 100_000, HardQuota: 100_000,
						Window: time.Hour, Bucket: time.Minute,
					}
				}
				call.Entries = append(call.Entries, store.Entry{
					Policy: store.NewPolicy(fmt.Sprintf("crowd/p%03d", i), false, false, limits), Key: "user", Cost: 1,
				})
			}
			send := func() {
				if _, err := backend.Evaluate(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
			send()
			if err := client.ConfigResetStat(b.Context()).Err(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				send()
			}
			b.ReportMetric(scriptTime(b, client), "script-us")
		})
	}
}
