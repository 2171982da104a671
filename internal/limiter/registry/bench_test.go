// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// BenchmarkSetToUse measures the time from the call of Set until the last of three
// replicas uses the change, with 1,000 plans in the registry.
func BenchmarkSetToUse(b *testing.B) {
	const plans, replicas = 1000, 3
	c := newCluster(b)
	l := c.leadSynced(makePlans(plans)...)
	used := make(chan int64, replicas)
	for _, name := range []string{"a", "b", "c"} {
		w := NewWatcher(c.newClient(), testPrefix, WatcherOptions{
			Installation: NewInstallation(testOwner, ""), Replica: name, Logger: logger(b, name),
		})
		go func() {
			_ = w.Start(b.Context(), func(s *index.Snapshot) { used <- s.Lookup("shop/p7").Limits[0].Threshold })
		}()
		c.Expect(<-used).To(BeEquivalentTo(5))
	}
	var took []time.Duration
	threshold := int64(5)
	for b.Loop() {
		threshold++
		start := time.Now()
		c.Expect(l.Set(b.Context(), makePlan("p7", threshold), plan.SetOptions{})).To(Succeed())
		for range replicas {
			for <-used != threshold {
			}
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(took[len(took)/2]), "p50-ms")
	b.ReportMetric(milliseconds(took[len(took)*99/100]), "p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
